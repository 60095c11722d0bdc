"""Sans-io Thrift: bytes in, values, spans or NEED_MORE out. No sockets, no clock, no logging.

In reading order: facts.py (the fact table; facts_generated.py is written by `make idl`), spec.py (struct classes for
the C++ codec), message.py (headers, limits), scan.py (where messages end), spans.py (offsets of fields and elements in
a struct), framing.py (which transport a peer uses), stepwise.py (decoding in short steps).
"""
