package xdp

import (
	"maps"
	"reflect"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf/btf"

	"github.com/netcraq/netcraq/internal/node/chain"
	"github.com/netcraq/netcraq/wire"
)

// TestLayout compares every struct that Go and the XDP program share: names are for readers, sizes and offsets count.
func TestLayout(t *testing.T) {
	spec, err := readObject(netcraqObject)
	if err != nil {
		t.Fatal(err)
	}
	for name, sizes := range map[string][2]uintptr{
		"objectBytes":        {objectBytes, unsafe.Sizeof(nqObject{})},
		"batchHeader":        {batchHeader, unsafe.Sizeof(nqBatch{})},
		"objectRecordBytes":  {objectRecordBytes, unsafe.Sizeof(nqRecord{})},
		"sessionRecordBytes": {sessionRecordBytes, unsafe.Sizeof(nqSessionRecord{})},
		"nearbyRecordBytes":  {nearbyRecordBytes, unsafe.Sizeof(nqNearbyRecord{})},
	} {
		if sizes[0] != sizes[1] {
			t.Errorf("%s is %d, the struct has %d", name, sizes[0], sizes[1])
		}
	}
	for name, mirror := range map[string]any{
		"nq_live": nqLive{}, "nq_member": nqMember{}, "nq_chain_config": nqChainConfig{}, "nq_object": nqObject{},
		"nq_session_key": nqSessionKey{}, "nq_session": nqSession{}, "nq_port": nqPort{}, "nq_port_cell": nqPortCell{},
		"nq_holder": nqHolder{}, "nq_heart_request": nqHeartRequest{}, "nq_punt": nqPunt{},
		"nq_batch": nqBatch{}, "nq_record": nqRecord{}, "nq_session_record": nqSessionRecord{}, "nq_load": nqLoad{},
		"nq_nearby_record": nqNearbyRecord{}, "nq_nearby_request": nqNearbyRequest{},
		"nq_key_set": nqKeySet{}, "nq_keyring": nqKeyring{}, "nq_heart": nqHeart{},
	} {
		var s *btf.Struct
		if err := spec.Types.TypeByName(name, &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		compareStruct(t, name, s, reflect.TypeOf(mirror))
	}
}

// TestNumbers compares the numbers that Go and the XDP program share.
func TestNumbers(t *testing.T) {
	spec, err := readObject(netcraqObject)
	if err != nil {
		t.Fatal(err)
	}
	shared := map[string]map[string]uint64{
		"nq_group": {
			"NQ_GROUP_ALL": groupRowAll, "NQ_GROUP_PORTS": maxPorts, "NQ_GROUP_COLUMNS": groupColumns, "NQ_FRAME_TAG_MAGIC": frameTagMagic,
		},
		"nq_nearby_limit": {"NQ_NEARBY_READS": nearbyReads},
		"nq_rule": {
			"NQ_RULE_W2": uint64(chain.W2), "NQ_RULE_W5": uint64(chain.W5), "NQ_RULE_W8": uint64(chain.W8),
			"NQ_RULE_R4": uint64(chain.R4), "NQ_RULE_G1": uint64(chain.G1), "NQ_RULE_G3": uint64(chain.G3),
			"NQ_RULE_G4": uint64(chain.G4), "NQ_RULE_H4": uint64(chain.H4), "NQ_RULE_W12": uint64(chain.W12),
			"NQ_RULE_W14": uint64(chain.W14),
		},
		"nq_clock_limit": {"NQ_CLOCK_JUMP": chain.ClockJump, "NQ_CLOCK_RATES": chain.ClockRates},
		"nq_state": {
			"NQ_STATE_NONE": uint64(chain.None), "NQ_STATE_ACTIVE": uint64(chain.Active), "NQ_STATE_FROZEN": uint64(chain.Frozen),
		},
		"nq_record_state": {
			"NQ_RECORD_ABSENT": recordAbsent, "NQ_RECORD_WHOLE": recordWhole, "NQ_RECORD_CONTENDED": recordContended,
			"NQ_RECORD_FULL": recordFull, "NQ_RECORD_STATE_BITS": recordStateBits,
		},
		"nq_table": {"NQ_TABLE_OBJECTS": tableObjects, "NQ_TABLE_SESSIONS": tableSessions, "NQ_TABLES": countedTables},
		"nq_shape": {"NQ_LENGTH": shapeLength, "NQ_TOMBSTONE": shapeTombstone, "NQ_CLEAN": shapeClean,
			"NQ_USED": shapeUsed},
		"nq_run":           {"NQ_RUN": runCells, "NQ_REACHES": lineReaches},
		"nq_program":       {"NQ_PROGRAM_BUNDLE": uint64(programBundle), "NQ_PROGRAMS": 1},
		"nq_key_sets":      {"NQ_KEY_SETS": wire.KeyGenerations},
		"nq_counter_index": {"NQ_OUTCOME_BITS": outcomeBits, "NQ_COUNTERS": counterRow, "NQ_LOAD_STEP": loadStep},
	}
	for name, want := range shared {
		var e *btf.Enum
		if err := spec.Types.TypeByName(name, &e); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := map[string]uint64{}
		for _, v := range e.Values {
			got[v.Name] = v.Value
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: C has %v, Go %v", name, got, want)
		}
	}
}

// compareStruct checks the members of s against the fields of a Go struct; a last member of open length has no field.
func compareStruct(t *testing.T, name string, s *btf.Struct, mirror reflect.Type) {
	t.Helper()
	for i, member := range s.Members {
		if i == mirror.NumField() {
			if _, array := member.Type.(*btf.Array); !array || i != len(s.Members)-1 {
				t.Errorf("%s.%s is not in the Go struct", name, member.Name)
			}
			return
		}
		f := mirror.Field(i)
		size, err := btf.Sizeof(member.Type)
		if err != nil {
			t.Fatal(err)
		}
		if uintptr(member.Offset.Bytes()) != f.Offset || uintptr(size) != f.Type.Size() {
			t.Errorf("%s.%s: C has %d bytes at %d, Go %d at %d", name, member.Name, size, member.Offset.Bytes(), f.Type.Size(), f.Offset)
		}
	}
	if int(mirror.Size()) != int(s.Size) {
		t.Errorf("%s: C has %d bytes, Go %d", name, s.Size, mirror.Size())
	}
}
