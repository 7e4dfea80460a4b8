package wire

import "testing"

func TestHeartbeat(t *testing.T) {
	key := Secret{1, 2, 3}
	want := Heartbeat{
		Answer: true, Granter: 2, Majority: 3, Node: 4, SetID: 5, Incarnation: 6, Request: 7, Stamp: 8, Lease: 9,
	}
	b := want.Append([]byte("before"), &key)[len("before"):]
	var got Heartbeat
	if !IsHeartbeat(b) || ReadHeartbeat(b, &key, &got) != Accepted || got != want {
		t.Errorf("%+v was read as %+v", want, got)
	}
	if outcome := ReadHeartbeat(b, nil, &got); outcome != OutcomeBadTag {
		t.Errorf("without a key: %v", outcome)
	}
	for i := range b {
		b[i] ^= 1
		if IsHeartbeat(b) && ReadHeartbeat(b, &key, &got) == Accepted {
			t.Errorf("byte %d is not in the tag", i)
		}
		b[i] ^= 1
	}
	if IsHeartbeat(b[:BaseBytes-1]) || ReadHeartbeat(b[1:], &key, &got) != OutcomeMalformed {
		t.Error("a heartbeat that was cut is one")
	}
}
