package main

import "testing"

func TestFinishBMv2(t *testing.T) {
	const compiled = `{"actions":[{"source_info":{"line":3},"primitives":[
		{"op":"_Counter_count","source_info":{},"parameters":[{"type":"extern","value":"Node.outcomes"},{"value":1}]},
		{"op":"register_read","parameters":[{"type":"field","value":["a","b"]},
			{"type":"register_array","value":"Node.key"},{"type":"runtime_data","value":0}]},
		{"op":"register_write","parameters":[{"type":"register_array","value":"Node.key"},
			{"type":"runtime_data","value":0},{"type":"field","value":["a","b"]}]},
		{"op":"register_write","parameters":[{"type":"register_array","value":"Node.op"},{"value":1},{"value":2}]},
		{"op":"assign","parameters":[{"type":"field"}]}]}],
		"counter_arrays":[{"name":"Node.outcomes","size":4}],
		"register_arrays":[{"name":"Node.key","id":0,"size":2,"bitwidth":64},{"name":"Node.op","id":1,"size":2,"bitwidth":8}],
		"extern_instances":[{"name":"Node.outcomes","type":"Counter"},{"name":"Node.sum","type":"Checksum"}]}`
	const want = `{"actions":[{"primitives":[` +
		`{"op":"register_write","parameters":[{"type":"register_array","value":"Node.outcomes"},{"value":1},` +
		`{"type":"expression","value":{"type":"expression","value":{"left":{"type":"register","value":["Node.outcomes",{"value":1}]},` +
		`"op":"+","right":{"type":"hexstr","value":"0x0000000000000001"}}}}]},` +
		`{"op":"assign","parameters":[{"type":"field","value":["a","b"]},` +
		`{"type":"expression","value":{"type":"expression","value":{"left":` +
		`{"type":"expression","value":{"left":` +
		`{"type":"register","value":["Node.key.high",{"type":"local","value":0}]},"op":"<<",` +
		`"right":{"type":"hexstr","value":"0x20"}}},"op":"|",` +
		`"right":{"type":"register","value":["Node.key.low",{"type":"local","value":0}]}}}}]},` +
		`{"op":"register_write","parameters":[{"type":"register_array","value":"Node.key.high"},{"type":"runtime_data","value":0},` +
		`{"type":"expression","value":{"type":"expression","value":{"left":{"type":"field","value":["a","b"]},"op":">>",` +
		`"right":{"type":"hexstr","value":"0x20"}}}}]},` +
		`{"op":"register_write","parameters":[{"type":"register_array","value":"Node.key.low"},{"type":"runtime_data","value":0},` +
		`{"type":"field","value":["a","b"]}]},` +
		`{"op":"register_write","parameters":[{"type":"register_array","value":"Node.op"},{"value":1},{"value":2}]},` +
		`{"op":"assign","parameters":[{"type":"field"}]}]}],` +
		`"counter_arrays":[],` +
		`"extern_instances":[{"name":"Node.sum","type":"Checksum"}],` +
		`"register_arrays":[{"bitwidth":32,"id":0,"name":"Node.key.high","size":2},{"bitwidth":32,"id":1,"name":"Node.key.low","size":2},` +
		`{"bitwidth":8,"id":2,"name":"Node.op","size":2},{"bitwidth":64,"id":3,"name":"Node.outcomes","size":4}]}` + "\n"
	got, err := finishBMv2([]byte(compiled))
	if err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	for _, bad := range []string{
		"{", `{"actions":[{"name":"a","primitives":[{"op":"register_read","parameters":[]}]}]}`,
	} {
		if _, err := finishBMv2([]byte(bad)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
