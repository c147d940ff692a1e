"""The embedded Kinesis: one asyncio process on loopback, everything in memory.

A request's way: `http` frames it, `protocol` reads JSON or CBOR, `dispatch` finds the operation in one of the
`api_*` modules, which act on the values of `model` and `records` through `account`. `control` is the door for tests.
"""
