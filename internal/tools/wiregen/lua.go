package main

import (
	"bytes"
	"fmt"
	"strings"
)

// renderLua writes the dissector for Wireshark: tables from the specification, and the code that reads them.
func renderLua(s *Spec) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "-- SPDX-License-Identifier: Apache-2.0\n-- %s\n", notice)
	b.WriteString("-- A dissector for Wireshark and tshark: docs/reference.md says how to use it.\n\n")
	luaNames(&b, "ops", constantsOf(s.Ops, func(o Op) Constant { return o.Constant }))
	luaNames(&b, "statuses", s.Statuses)
	luaNames(&b, "flags", constantsOf(s.Flags, func(f Flag) Constant { return f.Constant }))
	b.WriteString("local bits = {")
	for i, f := range s.Flags {
		fmt.Fprintf(&b, "%s %d", strings.Repeat(",", min(i, 1)), f.Value)
	}
	b.WriteString(" }\n\nlocal limits = {\n")
	for _, c := range s.Limits {
		fmt.Fprintf(&b, "  %s = %d,\n", c.Name, c.Value)
	}
	b.WriteString("}\n\n-- The headers: name, offset and bytes of each field.\nlocal layouts = {\n")
	for _, l := range s.Layouts {
		fmt.Fprintf(&b, "  %s = {\n", l.Name)
		for _, f := range l.Fields {
			fmt.Fprintf(&b, "    { %q, %d, %d, %q },\n", f.Name, f.Offset, f.Bytes, f.Doc)
		}
		b.WriteString("  },\n")
	}
	b.WriteString("}\n\n-- The header behind base of each op.\nlocal behind = {\n")
	for _, o := range s.Ops {
		if o.Layout != s.Layouts[0].Name && !s.apart(o.Layout) {
			fmt.Fprintf(&b, "  [%d] = %q,\n", o.Value, o.Layout)
		}
	}
	b.WriteString("}\n\n" + luaCode)
	return b.Bytes(), nil
}

func luaNames(b *bytes.Buffer, table string, constants []Constant) {
	fmt.Fprintf(b, "local %s = {\n", table)
	for _, c := range constants {
		fmt.Fprintf(b, "  [%d] = %q,\n", c.Value, c.Name)
	}
	b.WriteString("}\n\n")
}

// luaCode reads the tables. Fields of base are named netcraq.FIELD, all others netcraq.HEADER.FIELD.
const luaCode = `local netcraq = Proto("netcraq", "NetCRAQ")

local sizes = { [1] = ProtoField.uint8, [2] = ProtoField.uint16, [4] = ProtoField.uint32, [8] = ProtoField.uint64 }

local function name_of(layout, field)
  if layout == "base" then
    return "netcraq." .. field
  end
  return "netcraq." .. layout .. "." .. field
end

local fields = {
  status = ProtoField.uint16("netcraq.status", "status", base.DEC, statuses),
  value = ProtoField.bytes("netcraq.value", "value"),
}
for layout, list in pairs(layouts) do
  for _, f in ipairs(list) do
    local name = name_of(layout, f[1])
    local shown = f[3] == 8 and base.DEC_HEX or base.DEC
    fields[name] = sizes[f[3]](name, f[1], shown, f[1] == "op" and ops or nil, nil, f[4])
  end
end
for bit, name in pairs(flags) do
  fields["flag." .. bit] = ProtoField.bool("netcraq.flag." .. name, name, 8, nil, bit)
end
for _, field in pairs(fields) do
  table.insert(netcraq.fields, field)
end

local broken = ProtoExpert.new("netcraq.broken", "not a message", expert.group.MALFORMED, expert.severity.ERROR)
netcraq.experts = { broken }

-- header adds the fields of a header, and returns where it ends; nil: the message is shorter.
local function header(tvb, tree, layout)
  local list = layouts[layout]
  local last = list[#list]
  if tvb:len() < last[2] + last[3] then
    tree:add_proto_expert_info(broken, "shorter than its header " .. layout)
    return nil
  end
  for _, f in ipairs(list) do
    tree:add(fields[name_of(layout, f[1])], tvb(f[2], f[3]))
  end
  return last[2] + last[3]
end

-- message adds one message, and returns what it is.
local function message(tvb, tree)
  local last = header(tvb, tree, "base")
  if not last then
    return "?"
  end
  local op = tvb(3, 1):uint()
  local what = ops[op] or ("op " .. op)
  for _, bit in ipairs(bits) do
    tree:add(fields["flag." .. bit], tvb(4, 1))
  end
  if what == "reply" then
    tree:add(fields.status, tvb(14, 2))
    what = what .. " " .. (statuses[tvb(14, 2):uint()] or "?")
  end
  if behind[op] then
    last = header(tvb, tree, behind[op])
  end
  if last and tvb:len() > last then
    tree:add(fields.value, tvb(last))
  end
  return what
end

-- bundle adds the messages of a bundle.
local function bundle(tvb, tree)
  local at = header(tvb, tree, "bundle")
  if not at then
    return "bundle ?"
  end
  local count, length = tvb(4, 1):uint(), tvb(6, 2):uint()
  local seen = {}
  for n = 1, count do
    if length < 4 or tvb:len() < at + length then
      tree:add_proto_expert_info(broken, "shorter than its slots")
      break
    end
    local slot = tree:add(netcraq, tvb(at, length), "slot " .. n)
    header(tvb(at, length):tvb(), slot, "slot")
    local bytes = tvb(at, 2):uint()
    if bytes > 0 and bytes + 4 <= length then
      table.insert(seen, message(tvb(at + 4, bytes):tvb(), slot))
    end
    at = at + length
  end
  return "bundle: " .. table.concat(seen, ", ")
end

function netcraq.dissector(tvb, pinfo, root)
  if tvb:len() < 4 or tvb(0, 2):uint() ~= limits.magic then
    return 0
  end
  pinfo.cols.protocol = "NetCRAQ"
  local tree = root:add(netcraq, tvb())
  local op, what = ops[tvb(3, 1):uint()], "?"
  if op == "bundle" then
    what = bundle(tvb, tree)
  elseif op == "heartbeat" then
    header(tvb, tree, "heartbeat")
    what = op
  else
    local body, tagged = tvb, tvb(2, 1):uint() >= limits.tagged_mark
    local trailer = layouts.trailer[#layouts.trailer]
    local length = trailer[2] + trailer[3]
    if tagged and tvb:len() > length then
      body = tvb(0, tvb:len() - length):tvb()
    end
    what = message(body, tree)
    if tagged and tvb:len() > length then
      header(tvb(tvb:len() - length):tvb(), tree:add(netcraq, tvb(tvb:len() - length), "trailer"), "trailer")
    end
  end
  pinfo.cols.info = what
  return tvb:len()
end

DissectorTable.get("udp.port"):add(limits.port, netcraq)
`
