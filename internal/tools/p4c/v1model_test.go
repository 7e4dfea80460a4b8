package main

import "testing"

func TestFinishV1Model(t *testing.T) {
	const compiled = `{"actions":[{"source_info":{"line":3},"name":"a<b"}],
		"counter_arrays":[{"name":"Node.outcomes","size":4,"source_info":{}}]}`
	const want = `{"actions":[{"name":"a<b"}],"counter_arrays":[{"name":"Node.outcomes","size":4}]}` + "\n"
	if got, err := finishV1Model([]byte(compiled)); err != nil || string(got) != want {
		t.Errorf("%s, %v\nwant %s", got, err, want)
	}
	if _, err := finishV1Model([]byte("{")); err == nil {
		t.Error("half a program is accepted")
	}
}
