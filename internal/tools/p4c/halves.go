package main

import (
	"encoding/json"
	"fmt"

	"github.com/netcraq/netcraq/p4/bmv2"
)

// Calls of p4c's output for psa_switch, besides registerWrite.
const (
	registerRead = "register_read"
	assignment   = "assign"
)

const (
	wideBits = "64"
	halfBits = 32
)

// splitRegisters replaces each array of 64-bit registers by two arrays of 32 bits, NAME.high and NAME.low. Control planes
// get a register of 2^63 or more as 2^63 - 1, because BMv2's Thrift type for values is signed.
func splitRegisters(program map[string]any) error {
	wide := make(map[any]bool)
	arrays := []any{}
	all, _ := program["register_arrays"].([]any)
	for _, a := range all {
		array, _ := a.(map[string]any)
		if array["bitwidth"] != json.Number(wideBits) {
			arrays = append(arrays, array)
			continue
		}
		wide[array["name"]] = true
		for _, half := range bmv2.Halves {
			arrays = append(arrays, map[string]any{
				"name": fmt.Sprint(array["name"], half), "size": array["size"], "bitwidth": halfBits,
			})
		}
	}
	for i, a := range arrays {
		if array, ok := a.(map[string]any); ok {
			array["id"] = i
		}
	}
	program["register_arrays"] = arrays
	actions, _ := program["actions"].([]any)
	for _, a := range actions {
		if action, ok := a.(map[string]any); ok {
			if err := splitCalls(action, wide); err != nil {
				return fmt.Errorf("action %v: %w", action["name"], err)
			}
		}
	}
	return nil
}

func splitCalls(action map[string]any, wide map[any]bool) error {
	primitives, _ := action["primitives"].([]any)
	out := []any{}
	for _, p := range primitives {
		call, _ := p.(map[string]any)
		parameters, _ := call["parameters"].([]any)
		at := map[any]int{registerRead: 1, registerWrite: 0}
		place, accesses := at[call["op"]]
		if !accesses {
			out = append(out, p)
			continue
		}
		if len(parameters) != 3 {
			return fmt.Errorf("%v has %d parameters", call["op"], len(parameters))
		}
		array, _ := parameters[place].(map[string]any)
		if !wide[array["value"]] {
			out = append(out, p)
			continue
		}
		name := fmt.Sprint(array["value"])
		if call["op"] == registerRead {
			out = append(out, readHalves(name, parameters[0], parameters[2]))
		} else {
			out = append(out, writeHalves(name, parameters[1], parameters[2])...)
		}
	}
	action["primitives"] = out
	return nil
}

// readHalves is the call that sets a field to a register.
func readHalves(name string, to, index any) any {
	half := func(i int) any {
		return map[string]any{"type": "register", "value": []any{name + bmv2.Halves[i], operand(index)}}
	}
	return map[string]any{"op": assignment, "parameters": []any{
		to, parameter(operation("|", operation("<<", half(0), number32()), half(1))),
	}}
}

// writeHalves are the calls that set a register. A register keeps the lowest bits of its value.
func writeHalves(name string, index, value any) []any {
	write := func(half string, value any) any {
		return map[string]any{"op": registerWrite, "parameters": []any{
			map[string]any{"type": "register_array", "value": name + half}, index, value,
		}}
	}
	return []any{
		write(bmv2.Halves[0], parameter(operation(">>", operand(value), number32()))),
		write(bmv2.Halves[1], value),
	}
}

// operation is an expression. As the parameter of a call it is the value of another expression, see [parameter].
func operation(op string, left, right any) any {
	return map[string]any{"type": "expression", "value": map[string]any{"op": op, "left": left, "right": right}}
}

func parameter(expression any) any { return map[string]any{"type": "expression", "value": expression} }

func number32() any { return map[string]any{"type": "hexstr", "value": fmt.Sprintf("%#x", halfBits)} }

// operand is the parameter of a call as a part of an expression.
func operand(of any) any {
	p, ok := of.(map[string]any)
	switch {
	case ok && p["type"] == "expression":
		return p["value"]
	case ok && p["type"] == "runtime_data": // an argument of the action
		return map[string]any{"type": "local", "value": p["value"]}
	}
	return of
}
