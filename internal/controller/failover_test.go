package controller

import (
	"fmt"
	"testing"
)

func TestClusterFormsAndSurvivesANode(t *testing.T) {
	c := newCluster(t, 1, slack())
	for i := range 3 {
		c.startNode(fmt.Sprintf("n%d", i+1))
	}
	c.whole(3)
	kv := c.client()
	for i := range 100 {
		if _, err := kv.Put(c.soon(), fmt.Sprint("key", i), fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	c.nodes["n2"].serving.end()
	c.whole(2)
	for i := range 100 {
		got, err := kv.Get(c.soon(), fmt.Sprint("key", i))
		if err != nil || string(got.Value) != fmt.Sprint(i) {
			t.Fatal(i, got, err)
		}
		if _, err := kv.Put(c.soon(), fmt.Sprint("key", i), []byte("new")); err != nil {
			t.Fatal(err)
		}
	}
	c.startNode("n4")
	c.whole(3)
}
