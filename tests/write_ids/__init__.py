"""Transactional tables through proxies: reads answered because their ValidWriteIdList proves the cache fresh."""
