package topology

import (
	"testing"
)

// A cluster file that is accepted can be used, and reads the same when it was written again.
func FuzzParse(f *testing.F) {
	f.Add([]byte("epoch: 1\nshards: 4\nnodes:\n- {name: a, addr: 192.0.2.1:4411}\n" +
		"- {name: b, addr: 192.0.2.2:4411, api: 192.0.2.2:1}\nchains: [[a, b], [b]]\n"))
	f.Add([]byte("controllers: [192.0.2.1:4413, '[2001:db8::1]:4413']\nname: east\n"))
	f.Add([]byte(`{"epoch": 1, "shards": 1, "nodes": [{"name": "a", "addr": "192.0.2.1:4411"}], "chains": [["a"]]}`))
	f.Add([]byte("epoch: 1\nshards: 3\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text)
		if err != nil {
			return
		}
		written, err := c.Marshal()
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", c, err)
		}
		if _, err := Parse(written); err != nil {
			t.Fatalf("%+v cannot be read again: %v", c, err)
		}
		if c.Managed() {
			return
		}
		m, err := c.Map()
		if err != nil || m.Validate() != nil {
			t.Fatalf("no map: %v, %v", err, m.Validate())
		}
		for _, name := range m.Names(m.Chain(uint16(c.Shards - 1))) {
			c.ShardConfig(name, uint16(c.Shards-1))
		}
	})
}
