package main

import (
	"bytes"
	"encoding/json"
	"slices"
)

// The calls of a PSA counter and of a register in p4c's output for psa_switch.
const (
	countExtern   = "_Counter_count"
	registerWrite = "register_write"
	externType    = "Counter"
	counterBits   = 64
)

// finishBMv2 removes the positions in the sources, which would change with each comment. It splits 64-bit registers, and
// makes registers of PSA counters: psa_switch keeps the counts of a PSA counter to itself, and its control plane cannot
// read them. Counts never reach 2^63.
func finishBMv2(compiled []byte) ([]byte, error) {
	var program map[string]any
	decoder := json.NewDecoder(bytes.NewReader(compiled))
	decoder.UseNumber()
	if err := decoder.Decode(&program); err != nil {
		return nil, err
	}
	if err := splitRegisters(program); err != nil {
		return nil, err
	}
	finishNode(program)
	registers, _ := program["register_arrays"].([]any)
	counters, _ := program["counter_arrays"].([]any)
	for _, c := range counters {
		if counter, ok := c.(map[string]any); ok {
			registers = append(registers, map[string]any{
				"name": counter["name"], "id": len(registers), "size": counter["size"], "bitwidth": counterBits,
			})
		}
	}
	program["register_arrays"], program["counter_arrays"] = registers, []any{}
	if externs, ok := program["extern_instances"].([]any); ok {
		program["extern_instances"] = slices.DeleteFunc(externs, func(e any) bool {
			object, ok := e.(map[string]any)
			return ok && object["type"] == externType
		})
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(program)
	return b.Bytes(), err
}

func finishNode(node any) {
	switch n := node.(type) {
	case []any:
		for _, inner := range n {
			finishNode(inner)
		}
	case map[string]any:
		delete(n, "source_info")
		for _, inner := range n {
			finishNode(inner)
		}
		if n["op"] == countExtern {
			countInRegister(n)
		}
	}
}

// countInRegister makes the call of a counter write its register, one more than it holds.
func countInRegister(call map[string]any) {
	parameters, ok := call["parameters"].([]any)
	if !ok || len(parameters) != 2 {
		return
	}
	counter, ok := parameters[0].(map[string]any)
	if !ok {
		return
	}
	name, index := counter["value"], parameters[1]
	call["op"] = registerWrite
	call["parameters"] = []any{
		map[string]any{"type": "register_array", "value": name},
		index,
		parameter(operation("+", map[string]any{"type": "register", "value": []any{name, operand(index)}},
			map[string]any{"type": "hexstr", "value": "0x0000000000000001"})),
	}
}
