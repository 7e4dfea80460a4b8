"""Drives a switch with p4runtime-shell: shell.py ADDRESS P4INFO PROGRAM. It ends with an error at the first surprise."""

import struct
import sys

import grpc
import p4runtime_sh.shell as sh
from p4.v1 import p4runtime_pb2
from p4runtime_sh.p4runtime import P4RuntimeWriteException

ROUTES = "Node.route.routes"
NODE, PORT = "10.77.0.2", 4411
HEARTBEAT = bytes.fromhex("4e510119") + bytes(52)  # magic, version and op; the rest has no meaning here
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


def heartbeat():
    """A frame with a heartbeat for the node."""
    udp = struct.pack(">HHHH", PORT, PORT, 8 + len(HEARTBEAT), 0) + HEARTBEAT
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0)
    header += bytes([10, 77, 0, 1]) + bytes(int(part) for part in NODE.split("."))
    total = sum(struct.unpack(">10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    header = header[:10] + struct.pack(">H", 0xFFFF - total) + header[12:]
    return bytes(12) + b"\x08\x00" + header + udp


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

full = p4runtime_pb2.Update(type=p4runtime_pb2.Update.MODIFY)
place = full.entity.register_entry
place.register_id = next(
    r.preamble.id for r in sh.context.p4info.registers if r.preamble.name == "Node.state.objects_full")
place.index.index = 0
place.data.bitstring = b"\x01"
sh.client.write_update(full)
place.ClearField("data")
values = [e.register_entry.data.bitstring for answer in sh.client.read_one(full.entity) for e in answer.entities]
assert values == [b"\x01"], values
place.index.index, place.data.bitstring = 1, b"\x01"
fails("OUT_OF_RANGE", sh.client.write_update, full)

# Packets: the program passes a heartbeat for the node's address to controllers.
local = sh.TableEntry("Node.frame.local")(action="Node.frame.node")
local.match["hdr.ipv4.destination"], local.match["hdr.udp.destination"] = NODE, str(PORT)
for parameter in "shard_mask", "cell_bytes", "slot_mask", "max_entries":
    local.action[parameter] = "1"
local.insert()
frame = heartbeat()
sh.PacketOut(payload=frame, port="3").send()
packet = sh.client.get_stream_packet("packet", timeout=30).packet
assert packet.payload == frame, packet
header = sh.P4Objects(sh.P4Type.controller_packet_metadata)["packet_in"]
names = {field.id: field.name for field in header.metadata}
metadata = {names[m.metadata_id]: m.value for m in packet.metadata}
assert metadata["port"] == b"\x03" and metadata["reason"] == b"\x03", metadata

# A controller with a lower election id changes nothing.
sh.client.election_id = (0, 1)
fails("PERMISSION_DENIED", first.insert)
sh.client.election_id = (0, 2)
fails("UNIMPLEMENTED", sh.MulticastGroupEntry(1).add(1).insert)
sh.teardown()
print("the switch did all of it")
