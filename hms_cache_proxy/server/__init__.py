"""Client connections: pure logic, the asyncio driver, and the worker process."""
