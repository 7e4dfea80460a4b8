package p4runtime

import (
	"slices"
	"strings"
	"testing"

	config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	verify          = p4v1.SetForwardingPipelineConfigRequest_VERIFY
	verifyAndSave   = p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_SAVE
	verifyAndCommit = p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT
	commit          = p4v1.SetForwardingPipelineConfigRequest_COMMIT
	reconcile       = p4v1.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT
)

// TestProductsPrograms: their committed P4Info is that of the compiled programs.
func TestProductsPrograms(t *testing.T) {
	for _, name := range []string{"netcraq", "swap"} {
		base := "../../../../../p4/" + name
		if _, err := resolve(info(t, base+".p4info.txtpb"), read(t, base+".spec")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWrongConfigs: a P4Info of another program, or of parts that the switch has none of, is refused by name.
func TestWrongConfigs(t *testing.T) {
	program := read(t, "testdata/tiny.spec")
	longest := &config.MatchField_MatchType_{MatchType: config.MatchField_LPM}
	bits := func(i *config.P4Info) *config.P4BitTypeSpec { return i.Registers[0].TypeSpec.GetBitstring().GetBit() }
	for want, change := range map[string]func(i *config.P4Info){
		"no such table":          func(i *config.P4Info) { i.Tables[0].Preamble.Name = "Tiny.guests" },
		"another part has it":    func(i *config.P4Info) { i.Tables[0].Preamble.Id = i.Tables[1].Preamble.Id },
		"key of 2 fields":        func(i *config.P4Info) { i.Tables[0].MatchFields = i.Tables[0].MatchFields[:1] },
		"48 bits for":            func(i *config.P4Info) { i.Tables[0].MatchFields[0].Bitwidth = 47 },
		"another field has it":   func(i *config.P4Info) { i.Tables[0].MatchFields[0].Id = 2 },
		"matches exactly":        func(i *config.P4Info) { i.Tables[0].MatchFields[0].Match = longest },
		"4 entries":              func(i *config.P4Info) { i.Tables[0].Size = 5 },
		"no action 9":            func(i *config.P4Info) { i.Tables[0].ActionRefs[0].Id = 9 },
		"no action Tiny.x":       func(i *config.P4Info) { i.Actions[0].Preamble.Name = "Tiny.x" },
		"which the P4Info lacks": func(i *config.P4Info) { i.Tables[0].ActionRefs = i.Tables[0].ActionRefs[:1] },
		"2 parameters":           func(i *config.P4Info) { i.Actions[0].Params = nil },
		"32 bits for port":       func(i *config.P4Info) { i.Actions[0].Params[0].Bitwidth = 9 },
		"entries of programs":    func(i *config.P4Info) { i.Tables[0].IsConstTable = true },
		"direct resources":       func(i *config.P4Info) { i.Tables[0].DirectResourceIds = []uint32{1} },
		"timeouts":               func(i *config.P4Info) { i.Tables[0].IdleTimeoutBehavior = 1 },
		"has meters":             func(i *config.P4Info) { i.Meters = []*config.Meter{{}} },
		"has digests":            func(i *config.P4Info) { i.Digests = []*config.Digest{{}} },
		"counts packets only":    func(i *config.P4Info) { i.Counters[0].Spec.Unit = config.CounterSpec_BOTH },
		"a size of 16":           func(i *config.P4Info) { i.Counters[0].Size = 17 },
		"no such array":          func(i *config.P4Info) { i.Registers[0].Preamble.Name = "Tiny.scars" },
		"bit<W> only":            func(i *config.P4Info) { i.Registers[0].TypeSpec = nil },
		"values have 65 bits":    func(i *config.P4Info) { bits(i).Bitwidth = 65 },
		"whole bytes":            func(i *config.P4Info) { i.ControllerPacketMetadata[0].Metadata[0].Bitwidth = 63 },
		"want one field":         func(i *config.P4Info) { i.ControllerPacketMetadata[1].Metadata = nil },
		"packet_in and":          func(i *config.P4Info) { i.ControllerPacketMetadata[1].Preamble.Name = "packets" },
	} {
		i := tinyInfo(t)
		change(i)
		if _, err := resolve(i, program); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestPipelineConfig: each action, and the codes of requests that fail. A pipeline that is saved takes writes
// beside the one that runs, whose tables it leaves alone.
func TestPipelineConfig(t *testing.T) {
	r := newRig(t)
	c := r.open("", &p4v1.Uint128{Low: 3})
	c.wantNotice(codes.OK, c.id)
	_, err := c.find(entityOf(new(p4v1.TableEntry)))
	wantCode(t, err, codes.FailedPrecondition)
	c.wantConfig(nil)
	other := tinyConfig(t)
	other.P4Info.Counters = nil
	other.Cookie = nil
	broken := tinyConfig(t)
	broken.P4DeviceConfig = append(broken.P4DeviceConfig, "struct wrong\n"...)
	unloadable := tinyConfig(t)
	unloadable.P4DeviceConfig = append(unloadable.P4DeviceConfig, "apply {\n\tfly h.ethernet\n}\n"...)
	for _, action := range []p4v1.SetForwardingPipelineConfigRequest_Action{
		verify, verifyAndSave, verifyAndCommit, reconcile,
	} {
		for _, bad := range []*p4v1.ForwardingPipelineConfig{
			nil, {P4Info: tinyInfo(t)}, {P4DeviceConfig: []byte("x")}, broken, unloadable,
		} {
			wantCode(t, c.set(action, bad), codes.InvalidArgument)
		}
	}
	wantCode(t, c.set(p4v1.SetForwardingPipelineConfigRequest_UNSPECIFIED, tinyConfig(t)), codes.InvalidArgument)
	wantCode(t, c.set(commit, nil), codes.NotFound)
	wantCode(t, c.set(commit, tinyConfig(t)), codes.InvalidArgument)
	wantCode(t, c.set(verify, tinyConfig(t)), codes.OK)
	c.wantConfig(nil)

	wantCode(t, c.set(verifyAndCommit, tinyConfig(t)), codes.OK)
	wantCode(t, c.write(update(insert, host(1, 1))), codes.OK)
	wantCode(t, c.set(verify, other), codes.OK)
	c.wantConfig(tinyConfig(t))
	wantCode(t, c.set(verifyAndSave, other), codes.OK)
	c.wantConfig(other)
	c.wantEntities(entityOf(new(p4v1.TableEntry)))
	wantCode(t, c.write(update(insert, host(2, 2))), codes.OK)
	wantDetails(t, c.write(&p4v1.Update{Type: modify, Entity: counter(seen, at(1), 1)}), codes.InvalidArgument)
	if n := len(r.server.active.state.entries[r.server.active.state.pipe.tables[0]]); n != 1 {
		t.Errorf("the pipeline that runs has %d entries", n)
	}
	wantCode(t, c.set(commit, nil), codes.OK)
	c.wantEntities(entityOf(new(p4v1.TableEntry)), entityOf(host(2, 2)))
	wantCode(t, c.set(commit, nil), codes.NotFound)
	wantCode(t, c.set(verifyAndCommit, tinyConfig(t)), codes.OK)
	c.wantEntities(entityOf(new(p4v1.TableEntry)))
	if running := r.running(); running != 1 {
		t.Errorf("%d engines run for one pipeline", running)
	}
	_, err = c.SetForwardingPipelineConfig(c.ctx(), &setRequest{DeviceId: 1})
	wantCode(t, err, codes.NotFound)
	_, err = c.SetForwardingPipelineConfig(c.ctx(), &setRequest{DeviceId: device, Role: "nobody"})
	wantCode(t, err, codes.NotFound)
}

// TestReconcile: a new pipeline takes over what the present one holds; if it has no place for something, the present
// one goes on.
func TestReconcile(t *testing.T) {
	r := newRig(t)
	c := r.open("", &p4v1.Uint128{Low: 3})
	c.wantNotice(codes.OK, c.id)
	wantCode(t, c.set(reconcile, tinyConfig(t)), codes.OK) // there is nothing to take over
	c.mark()
	byDefault := &p4v1.TableEntry{
		TableId: hosts, IsDefaultAction: true, Action: act(dropIt), Metadata: []byte("mine"),
	}
	wantCode(t, c.write(update(insert, host(1, 3)), update(modify, byDefault),
		&p4v1.Update{Type: modify, Entity: register(marks, at(2), 1, 2)},
		&p4v1.Update{Type: modify, Entity: counter(seen, at(9), 8)}), codes.OK)
	filters := []*p4v1.Entity{entityOf(new(p4v1.TableEntry)),
		entityOf(&p4v1.TableEntry{TableId: hosts, IsDefaultAction: true}), register(marks, at(2)),
		counter(seen, at(9), 0)}
	before, err := c.find(filters...)
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(*config.P4Info){
		"a table less":   func(i *config.P4Info) { i.Tables = i.Tables[1:] },
		"a smaller one":  func(i *config.P4Info) { i.Tables[0].Size = 1 },
		"no counters":    func(i *config.P4Info) { i.Counters = nil },
		"narrower marks": func(i *config.P4Info) { i.Registers[0].TypeSpec.GetBitstring().GetBit().Bitwidth = 8 },
	} {
		other := tinyConfig(t)
		change(other.P4Info)
		t.Log(what)
		wantCode(t, c.set(reconcile, other), codes.InvalidArgument)
		c.wantConfig(tinyConfig(t))
		c.wantSame(before, filters)
		if n := c.packetsOf(7); n != 0 { // and its marker comes, so the pipeline runs
			t.Errorf("%d packets of an unknown host", n)
		}
	}
	other := tinyConfig(t)
	other.Cookie.Cookie++
	wantCode(t, c.set(reconcile, other), codes.OK)
	c.wantConfig(other)
	c.wantSame(before, filters)
	if n := c.packetsOf(7); n != 0 {
		t.Errorf("%d packets of an unknown host in the new pipeline", n)
	}
	if running := r.running(); running != 1 {
		t.Errorf("%d engines run for one pipeline", running)
	}
}

// wantSame reads again what was read before.
func (c *controller) wantSame(before, filters []*p4v1.Entity) {
	c.Helper()
	now, err := c.find(filters...)
	if err != nil || !slices.EqualFunc(now, before, func(a, b *p4v1.Entity) bool { return proto.Equal(a, b) }) {
		c.Errorf("%v, %v, want %v", now, err, before)
	}
}

func (r *rig) running() (n int) {
	for _, e := range r.engines {
		if e.Err() == nil {
			n++
		}
	}
	return n
}

// wantConfig asks for the config in each way.
func (r *rig) wantConfig(want *p4v1.ForwardingPipelineConfig) {
	r.Helper()
	for kind := range p4v1.GetForwardingPipelineConfigRequest_ResponseType_name {
		kind := p4v1.GetForwardingPipelineConfigRequest_ResponseType(kind)
		m, err := r.GetForwardingPipelineConfig(r.ctx(), &p4v1.GetForwardingPipelineConfigRequest{
			DeviceId: device, ResponseType: kind,
		})
		if err != nil {
			r.Fatal(err)
		}
		part := proto.CloneOf(want)
		switch {
		case want == nil:
		case kind == p4v1.GetForwardingPipelineConfigRequest_COOKIE_ONLY:
			part.P4Info, part.P4DeviceConfig = nil, nil
		case kind == p4v1.GetForwardingPipelineConfigRequest_DEVICE_CONFIG_AND_COOKIE:
			part.P4Info = nil
		case kind == p4v1.GetForwardingPipelineConfigRequest_P4INFO_AND_COOKIE:
			part.P4DeviceConfig = nil
		}
		if !proto.Equal(m.GetConfig(), part) {
			r.Errorf("%v: %v, want %v", kind, m.GetConfig(), part)
		}
	}
	_, err := r.GetForwardingPipelineConfig(r.ctx(), &p4v1.GetForwardingPipelineConfigRequest{DeviceId: 1})
	wantCode(r.TB, err, codes.NotFound)
}

// TestPortsThatDoNotOpen: the controller learns which interface is missing.
func TestPortsThatDoNotOpen(t *testing.T) {
	r := newRig(t, "nonesuch")
	c := r.open("", &p4v1.Uint128{Low: 3})
	c.wantNotice(codes.OK, c.id)
	err := c.set(verifyAndCommit, tinyConfig(t))
	wantCode(t, err, codes.Unavailable)
	if !strings.Contains(status.Convert(err).Message(), "nonesuch") {
		t.Error(err)
	}
}

// TestEngineThatEnds: the switch has no pipeline any more, says why, and takes another.
func TestEngineThatEnds(t *testing.T) {
	c := primary(t)
	if err := c.write(update(insert, host(1, 1))); err != nil {
		t.Fatal(err)
	}
	if err := c.engines[0].Close(); err != nil {
		t.Fatal(err)
	}
	_, err := c.find(counter(0, nil, 0))
	// The server has not noticed yet.
	for ctx := c.ctx(); status.Code(err) == codes.Unknown; _, err = c.find(counter(0, nil, 0)) {
		wantDetails(t, err, codes.Unavailable)
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
	}
	wantCode(t, err, codes.FailedPrecondition)
	if !strings.Contains(err.Error(), "it ended") {
		t.Error(err)
	}
	c.wantConfig(nil)
	wantCode(t, c.write(update(insert, host(1, 1))), codes.FailedPrecondition)
	wantCode(t, c.set(verifyAndCommit, tinyConfig(t)), codes.OK)
	wantCode(t, c.write(update(insert, host(1, 1))), codes.OK)
}

// TestCapabilities: the version, for this device or for none.
func TestCapabilities(t *testing.T) {
	r := newRig(t)
	for id, code := range map[uint64]codes.Code{0: codes.OK, device: codes.OK, 1: codes.NotFound} {
		m, err := r.Capabilities(r.ctx(), &p4v1.CapabilitiesRequest{DeviceId: id})
		wantCode(t, err, code)
		if err == nil && m.GetP4RuntimeApiVersion() != Version {
			t.Errorf("version %q", m.GetP4RuntimeApiVersion())
		}
	}
}
