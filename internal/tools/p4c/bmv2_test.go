package main

import "testing"

func TestFinishBMv2(t *testing.T) {
	const compiled = `{"actions":[{"source_info":{"line":3},"primitives":[
		{"op":"_Counter_count","source_info":{},"parameters":[{"type":"extern","value":"Node.outcomes"},{"value":1}]},
		{"op":"assign","parameters":[{"type":"field"}]}]}],
		"counter_arrays":[{"name":"Node.outcomes","size":4}],
		"extern_instances":[{"name":"Node.outcomes","type":"Counter"},{"name":"Node.sum","type":"Checksum"}]}`
	const want = `{"actions":[{"primitives":[` +
		`{"op":"count","parameters":[{"type":"counter_array","value":"Node.outcomes"},{"value":1}]},` +
		`{"op":"assign","parameters":[{"type":"field"}]}]}],` +
		`"counter_arrays":[{"name":"Node.outcomes","size":4}],` +
		`"extern_instances":[{"name":"Node.sum","type":"Checksum"}]}` + "\n"
	got, err := finishBMv2([]byte(compiled))
	if err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	if _, err := finishBMv2([]byte("{")); err == nil {
		t.Error("half a program is accepted")
	}
}
