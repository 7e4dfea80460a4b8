"""Drives a switch with p4runtime-shell: shell.py ADDRESS P4INFO PROGRAM. It ends with an error at the first surprise."""

import sys

import grpc
import p4runtime_sh.shell as sh
from p4runtime_sh.p4runtime import P4RuntimeWriteException

ROUTES = "Node.route.routes"
address, p4info, program = sys.argv[1:]


def fails(code, call, *arguments):
    """A call that the switch refuses, with a code of the specification."""
    try:
        call(*arguments)
    except P4RuntimeWriteException as e:
        assert [grpc_code(error) for _, error in e.errors] == [code], e
    except grpc.RpcError as e:  # the whole request
        assert e.code().name == code, e
    else:
        raise AssertionError(f"{call} is not refused with {code}")


def grpc_code(error):
    return next(c.name for c in grpc.StatusCode if c.value[0] == error.canonical_code)


def route(host, port="3", source="02:00:00:00:00:01"):
    e = sh.TableEntry(ROUTES)(action="Node.route.via")
    e.match["meta.to_address"] = host
    e.action["port"], e.action["source"], e.action["destination"] = port, source, "02:00:00:00:00:02"
    return e


def ports():
    return sorted(e.action["port"].value for e in sh.TableEntry(ROUTES).read())


sh.setup(device_id=1, grpc_addr=address, election_id=(0, 2), config=sh.FwdPipeConfig(p4info, program))
assert sh.client.api_version() == "1.5.0"

# Tables.
first = route("10.0.0.1")
first.insert()
fails("ALREADY_EXISTS", first.insert)
fails("NOT_FOUND", route("10.0.0.2").modify)
fails("NOT_FOUND", route("10.0.0.2").delete)
first.action["port"] = "4"
first.modify()
route("10.0.0.2").insert()
assert ports() == [b"\x03", b"\x04"], ports()
first.delete()
assert ports() == [b"\x03"], ports()
default = sh.TableEntry(ROUTES)(action="Node.route.unknown", is_default=True)
default.modify()
fails("INVALID_ARGUMENT", default.insert)

# Counters and registers.
reads = sh.CounterEntry("Node.state.shard_reads")
reads.index, reads.packet_count = 3, 9
reads.modify()
counts = [c.packet_count for c in sh.CounterEntry("Node.state.shard_reads").read()]
assert counts == [0, 0, 0, 9] + 65532 * [0], counts[:8]
reads.index = 65536
fails("OUT_OF_RANGE", reads.modify)

# Packets: the program has no way for a host, and asks for one.
out = sh.PacketOut(payload=bytes(60), port="3")
out.send()

# A controller with a lower election id changes nothing.
sh.client.election_id = (0, 1)
fails("PERMISSION_DENIED", first.insert)
sh.client.election_id = (0, 2)
fails("UNIMPLEMENTED", sh.MulticastGroupEntry(1).add(1).insert)
sh.teardown()
print("the switch did all of it")
