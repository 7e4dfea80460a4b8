package p4runtime

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4v1 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/types/known/anypb"

	artefacts "github.com/netcraq/netcraq/p4"
	"github.com/netcraq/netcraq/p4/v1model"

	"github.com/netcraq/netcraq/api/switchv1"
	"github.com/netcraq/netcraq/internal/node/dataplane"
	"github.com/netcraq/netcraq/internal/node/dataplane/p4"
	"github.com/netcraq/netcraq/internal/platform/callerror"
)

const (
	callWait   = 10 * time.Second // for a switch's answer, by default
	commitWait = time.Minute      // for a pipeline
	plainWait  = 2 * time.Second  // for the answer of a switch without registers to a request of this project
	// primaryWait is for the end of another controller's stream: that of a process that was just ended.
	primaryWait = 3 * time.Second
	// watchEvery is how often a controller looks whether its pipeline still runs.
	watchEvery = time.Second
	cpuFrames  = 4096
)

// Target is a switch and the program that it shall run.
type Target struct {
	Address   string
	Device    uint64
	Dial      []grpc.DialOption
	Pipelines []Pipeline // the program for each kind of switch: the first that the switch takes
	Wait      bool       // for a switch that starts a little later
	// Patience bounds the wait for each answer of the switch; 0: [callWait].
	Patience time.Duration
}

// Pipeline is a compiled program and its P4Info, as text.
type Pipeline struct{ Program, Info []byte }

// NodeTarget is a switch that shall run the program of nodes.
func NodeTarget(address string, device uint64, dial ...grpc.DialOption) Target {
	// SWX's engine refuses v1model's program. simple_switch_grpc takes none any more after SWX's.
	return Target{Address: address, Device: device, Dial: dial, Pipelines: []Pipeline{
		{v1model.Program, v1model.Info}, {artefacts.Program, artefacts.Info},
	}}
}

// Remote is a switch that this process controls by P4Runtime. It is gone for good when this process is no longer its
// primary controller, when it does not answer, or when it runs another pipeline.
type Remote struct {
	target   Target
	conn     *grpc.ClientConn
	calls    p4v1.P4RuntimeClient
	stream   p4v1.P4Runtime_StreamChannelClient
	ctx      context.Context // of the stream
	cancel   context.CancelFunc
	id       *p4v1.Uint128 // of the election
	catalog  *catalog
	cookie   uint64
	byPlace  bool // the switch has no rows of places in one message
	steps    bool // its server has no registers
	plain    bool // it knows no requests of this project
	atomic   p4v1.WriteRequest_Atomicity
	clock    atomic.Uint64 // of packets to it; 0: its own
	forCPU   chan p4.Left
	answers  chan []byte   // of the program to steps
	patience time.Duration // for such an answer; other answers: target.Patience
	tried    chan []byte   // of the program to packets that are tried
	gone     chan struct{}
	workers  sync.WaitGroup

	mu      sync.Mutex // one request after the other
	holds   int
	present map[uint32]map[string]*p4v1.TableEntry // entries of tables, by key

	asking  sync.Mutex // held while the program is asked
	sending sync.Mutex // on the stream
	number  uint64     // of the last request on it

	state   sync.Mutex
	failed  error // why the switch is gone
	waiting map[uint64]chan *switchv1.Answer
	closed  sync.Once
}

var _ p4.Switch = (*Remote)(nil)

// Dial becomes the primary controller of a switch without a pipeline, or with the target's, and gives it an empty one.
// It takes no switch from another controller.
func Dial(ctx context.Context, t Target) (*Remote, error) {
	if t.Patience == 0 {
		t.Patience = callWait
	}
	r := &Remote{
		target: t, forCPU: make(chan p4.Left, cpuFrames),
		answers: make(chan []byte, cpuFrames), tried: make(chan []byte, cpuFrames), patience: t.Patience,
		gone: make(chan struct{}), present: make(map[uint32]map[string]*p4v1.TableEntry),
		waiting: make(map[uint64]chan *switchv1.Answer),
	}
	var err error
	if r.conn, err = grpc.NewClient(t.Address, t.Dial...); err != nil {
		return nil, fmt.Errorf("the switch at %s: %w", t.Address, err)
	}
	r.calls = p4v1.NewP4RuntimeClient(r.conn)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if err := r.begin(ctx); err != nil {
		if status.Code(err) == codes.Unavailable {
			err = fmt.Errorf("%s: start the switch, or correct its address or this node's --identity",
				status.Convert(err).Message())
		}
		return nil, errors.Join(fmt.Errorf("the switch at %s: %w", t.Address, err), r.end())
	}
	r.workers.Go(r.watch)
	return r, nil
}

// end ends the connection.
func (r *Remote) end() error {
	r.cancel()
	err := r.conn.Close()
	r.workers.Wait()
	return err
}

func (r *Remote) begin(ctx context.Context) error {
	stop := context.AfterFunc(ctx, r.cancel)
	defer stop()
	late := time.AfterFunc(r.target.Patience, r.cancel)
	err := r.becomePrimary()
	if late := !late.Stop() || errors.Is(ctx.Err(), context.DeadlineExceeded); late && err != nil {
		why := callerror.Text(status.Error(codes.Unavailable, status.Convert(err).Message()))
		return status.Error(codes.Unavailable, "it does not answer in time: "+why)
	}
	if err != nil {
		return err
	}
	if err := r.choosePipeline(); err != nil {
		return err
	}
	r.workers.Go(r.receive)
	if err := r.checkWrites(); err != nil {
		return err
	}
	if err := r.checkArrays(); err != nil {
		return err
	}
	if err := r.makeGroups(); err != nil {
		return err
	}
	return r.checkClock()
}

// becomePrimary opens the stream. The election id is above each one that was a primary's, and no other process has it:
// a late request of an earlier controller, which the switch may have forgotten, does not count as one of this process.
func (r *Remote) becomePrimary() (err error) {
	if r.stream, err = r.calls.StreamChannel(r.ctx, grpc.WaitForReady(r.target.Wait)); err != nil {
		return err
	}
	if err := r.arbitrate(nil); err != nil {
		return err
	}
	highest, err := r.awaitVacancy()
	if err != nil {
		return err
	}
	if err := r.checkFree(); err != nil {
		return err
	}
	r.id = &p4v1.Uint128{High: highest.GetHigh() + 1, Low: uint64(time.Now().UnixNano())}
	if err := r.arbitrate(r.id); err != nil {
		return err
	}
	is, err := r.notice()
	if err == nil && codes.Code(is.GetStatus().GetCode()) != codes.OK {
		err = errPrimary(is)
	}
	return err
}

// awaitVacancy waits until no controller is primary, and returns the highest election id so far.
func (r *Remote) awaitVacancy() (*p4v1.Uint128, error) {
	var late *time.Timer
	var elsewhere error
	for {
		is, err := r.notice()
		if elsewhere != nil && err != nil {
			return nil, elsewhere
		}
		if err != nil {
			return nil, err
		}
		if codes.Code(is.GetStatus().GetCode()) != codes.AlreadyExists {
			return is.GetElectionId(), nil
		}
		elsewhere = errPrimary(is)
		if late == nil {
			late = time.AfterFunc(primaryWait, r.cancel)
			defer late.Stop()
		}
	}
}

func errPrimary(is *p4v1.MasterArbitrationUpdate) error {
	return fmt.Errorf(
		"another controller is its primary, with the election id %d:%d: end that node, or give another switch",
		is.GetElectionId().GetHigh(), is.GetElectionId().GetLow())
}

func (r *Remote) arbitrate(id *p4v1.Uint128) error {
	return r.send(&p4v1.StreamMessageRequest{Update: &p4v1.StreamMessageRequest_Arbitration{
		Arbitration: &p4v1.MasterArbitrationUpdate{DeviceId: r.target.Device, ElectionId: id},
	}})
}

// notice waits for the next notice of the election.
func (r *Remote) notice() (*p4v1.MasterArbitrationUpdate, error) {
	for {
		m, err := r.stream.Recv()
		if err != nil {
			return nil, err
		}
		if is := m.GetArbitration(); is != nil {
			return is, nil
		}
	}
}

func (r *Remote) send(m *p4v1.StreamMessageRequest) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	return r.stream.Send(m)
}

// checkFree refuses a switch that runs something else.
func (r *Remote) checkFree() error {
	ctx, cancel := context.WithTimeout(r.ctx, r.target.Patience)
	defer cancel()
	now, err := r.calls.GetForwardingPipelineConfig(ctx, &p4v1.GetForwardingPipelineConfigRequest{
		DeviceId: r.target.Device, ResponseType: p4v1.GetForwardingPipelineConfigRequest_P4INFO_AND_COOKIE,
	})
	if status.Code(err) == codes.FailedPrecondition { // as PI's server says that there is none
		return nil
	}
	if err != nil {
		return err
	}
	is := now.GetConfig()
	ours := slices.ContainsFunc(r.target.Pipelines, func(p Pipeline) bool {
		return p.cookie() == is.GetCookie().GetCookie()
	})
	if is != nil && !ours {
		return fmt.Errorf("it runs another program (%s, with the cookie %#x), which this node would end: "+
			"restart the switch, which empties it, or give another switch",
			is.GetP4Info().GetPkgInfo().GetName(), is.GetCookie().GetCookie())
	}
	return nil
}

// cookie is the number by which a switch tells which program it runs.
func (p *Pipeline) cookie() uint64 {
	sum := sha256.Sum256(p.Program)
	return binary.BigEndian.Uint64(sum[:])
}

// choosePipeline gives the switch the first of the programs that it takes.
func (r *Remote) choosePipeline() error {
	var refused []error
	for i := range r.target.Pipelines {
		err := r.setPipeline(&r.target.Pipelines[i])
		switch status.Code(err) {
		case codes.InvalidArgument, codes.Unknown, codes.Internal, codes.Unimplemented:
			refused = append(refused, err)
		default:
			return err
		}
	}
	return fmt.Errorf("it takes no program of this node: %w", errors.Join(refused...))
}

// setPipeline gives the switch a program, without state.
func (r *Remote) setPipeline(p *Pipeline) (err error) {
	info := new(config.P4Info)
	if err := prototext.Unmarshal(p.Info, info); err != nil {
		return err
	}
	if r.catalog, err = catalogOf(info); err != nil {
		return err
	}
	r.cookie = p.cookie()
	ctx, cancel := context.WithTimeout(r.ctx, commitWait)
	defer cancel()
	_, err = r.calls.SetForwardingPipelineConfig(ctx, &setRequest{
		DeviceId: r.target.Device, ElectionId: r.id, Action: p4v1.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
		Config: &p4v1.ForwardingPipelineConfig{
			P4Info: info, P4DeviceConfig: p.Program,
			Cookie: &p4v1.ForwardingPipelineConfig_Cookie{Cookie: r.cookie},
		},
	})
	return err
}

// checkClock refuses a switch whose clock is not this machine's: the program compares its own with leases that count on
// this machine's.
func (r *Remote) checkClock() error {
	if r.plain {
		return nil // the program tells its clock
	}
	before := dataplane.BootTime()
	answer, err := r.ask(&switchv1.Request{What: &switchv1.Request_Clock{Clock: &switchv1.Clock{Ask: true}}})
	if status.Code(err) == codes.Unimplemented && r.steps {
		return nil // a node without registers holds nothing, and reads the clock of the program
	}
	if status.Code(err) == codes.Unimplemented {
		return errors.New("it cannot hold packets back or tell its clock (api/switch.proto), as nodes need")
	}
	if err != nil {
		return err
	}
	if now := answer.GetNow(); now < before || now > dataplane.BootTime() {
		return errors.New("its clock is not this machine's, and read leases need one clock: " +
			"run the node on the switch's machine")
	}
	return nil
}

// checkArrays refuses a switch whose server has no counters, and finds out whether it has registers and takes rows.
// The values of a new pipeline are zero.
func (r *Remote) checkArrays() error {
	err := r.tryArrays(true)
	if status.Code(err) == codes.Unimplemented {
		return fmt.Errorf("its P4Runtime server does not read and write counters (%w), in which nodes count: "+
			"use a switch that implements CounterEntry, as netcraq switch does", err)
	}
	if err != nil {
		return err
	}
	err = r.tryArrays(false)
	if r.steps = status.Code(err) == codes.Unimplemented; err != nil && !r.steps {
		return err
	}
	wait := r.target.Patience
	if r.steps {
		wait = plainWait
	}
	_, err = r.askWithin(wait, &switchv1.Request{What: &switchv1.Request_Rows{Rows: new(switchv1.Rows)}})
	if r.plain = errors.Is(err, errSilent); r.plain && r.steps {
		r.byPlace = true
		return nil
	}
	if r.byPlace = status.Code(err) == codes.Unimplemented; r.byPlace {
		return nil
	}
	return err
}

// tryArrays reads and writes a place of each array of counters or of registers.
func (r *Remote) tryArrays(counters bool) error {
	var first []*p4v1.Entity
	var zero []*p4v1.Update
	for _, is := range r.catalog.arrays {
		if is.counter == counters {
			first = append(first, is.entity(new(p4v1.Index), nil))
			zero = append(zero, &p4v1.Update{Type: p4v1.Update_MODIFY, Entity: is.entity(new(p4v1.Index), new(uint64))})
		}
	}
	if _, err := r.read(first); err != nil {
		return err
	}
	return r.tryWrite(zero)
}

// receive handles what the switch sends, until the stream ends.
func (r *Remote) receive() {
	defer close(r.forCPU)
	for {
		m, err := r.stream.Recv()
		if err != nil {
			r.lose(fmt.Errorf("its stream ended (%w): the switch is away, or was restarted and is empty", err))
			return
		}
		switch u := m.GetUpdate().(type) {
		case *p4v1.StreamMessageResponse_Arbitration:
			if codes.Code(u.Arbitration.GetStatus().GetCode()) != codes.OK {
				r.lose(errPrimary(u.Arbitration))
			}
		case *p4v1.StreamMessageResponse_Packet:
			r.deliver(u.Packet)
		case *p4v1.StreamMessageResponse_Other:
			r.answered(u.Other)
		case *p4v1.StreamMessageResponse_Error:
			r.refused(u.Error)
		}
	}
}

func (r *Remote) deliver(m *p4v1.PacketIn) {
	f, err := r.catalog.frameOf(m)
	if err != nil {
		return
	}
	if p4.Tried(f) {
		select {
		case r.tried <- f:
		default:
		}
		return
	}
	if _, ok := p4.AnswerTo(f); ok {
		select {
		case r.answers <- f:
		default: // the step is repeated
		}
		return
	}
	select {
	case r.forCPU <- p4.Left{Port: p4.PortCPU, Frame: f}:
	default: // the sender tries again
	}
}

// answered gives an answer to who asked.
func (r *Remote) answered(m *anypb.Any) {
	answer := new(switchv1.Answer)
	if m.UnmarshalTo(answer) != nil {
		return
	}
	r.state.Lock()
	defer r.state.Unlock()
	if to := r.waiting[answer.GetNumber()]; to != nil {
		to <- answer
		delete(r.waiting, answer.GetNumber())
	}
}

// refused handles a message that the switch could not use. That of a packet is lost: the sender tries again. A switch
// that knows no requests of this project answers none.
func (r *Remote) refused(e *p4v1.StreamError) {
	if e.GetOther() == nil {
		return
	}
	r.state.Lock()
	defer r.state.Unlock()
	for number, to := range r.waiting {
		to <- &switchv1.Answer{Code: e.GetCanonicalCode(), Message: e.GetMessage()}
		delete(r.waiting, number)
	}
}

// ask makes a request of this project, and waits for its answer.
func (r *Remote) ask(request *switchv1.Request) (*switchv1.Answer, error) {
	answer, err := r.askWithin(r.target.Patience, request)
	if errors.Is(err, errSilent) {
		err = r.explain(context.DeadlineExceeded)
	}
	return answer, err
}

var errSilent = errors.New("it answers no request of this project")

// askWithin is ask with another time for the answer, after which the error is errSilent.
func (r *Remote) askWithin(wait time.Duration, request *switchv1.Request) (*switchv1.Answer, error) {
	to := make(chan *switchv1.Answer, 1)
	r.sending.Lock()
	r.number++
	request.Number = r.number
	r.state.Lock()
	r.waiting[r.number] = to
	r.state.Unlock()
	packed, err := anypb.New(request)
	if err == nil {
		err = r.stream.Send(&p4v1.StreamMessageRequest{Update: &p4v1.StreamMessageRequest_Other{Other: packed}})
	}
	r.sending.Unlock()
	if err != nil {
		return nil, r.explain(err)
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case answer := <-to:
		if answer.GetCode() != 0 {
			return nil, r.explain(status.Error(codes.Code(answer.GetCode()), answer.GetMessage()))
		}
		return answer, nil
	case <-r.gone:
		return nil, r.Err()
	case <-late.C:
		return nil, errSilent
	}
}

// watch looks whether the switch still runs the pipeline.
func (r *Remote) watch() {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-r.gone:
			return
		case <-ticker.C:
			_ = r.checkPipeline() // it is gone then
		}
	}
}

// checkPipeline ends the use of a switch whose pipeline is another one.
func (r *Remote) checkPipeline() error {
	ctx, cancel := context.WithTimeout(r.ctx, r.target.Patience)
	defer cancel()
	is, err := r.calls.GetForwardingPipelineConfig(ctx, &p4v1.GetForwardingPipelineConfigRequest{
		DeviceId: r.target.Device, ResponseType: p4v1.GetForwardingPipelineConfigRequest_COOKIE_ONLY,
	})
	switch {
	case err != nil:
		return r.explain(err)
	case is.GetConfig() == nil:
		return r.lost(errors.New("its pipeline is gone, and the objects with it"))
	case is.GetConfig().GetCookie().GetCookie() != r.cookie:
		return r.lost(errors.New("another controller gave it another program"))
	}
	return nil
}

// lose ends the use of the switch, unless it ended before.
func (r *Remote) lose(why error) {
	r.state.Lock()
	defer r.state.Unlock()
	if r.failed == nil {
		r.failed = fmt.Errorf("%w: %s: %w", p4.ErrGone, r.target.Address, why)
		close(r.gone)
		r.cancel()
	}
}

// lost is lose, and returns why the use ended first.
func (r *Remote) lost(why error) error {
	r.lose(why)
	return r.Err()
}

// explain is the error of a call, and ends the use of a switch that does not obey any more.
func (r *Remote) explain(err error) error {
	switch {
	case r.Err() != nil:
		return r.Err()
	case errors.Is(err, io.EOF): // the stream ended, and its receiver knows why
		<-r.gone
		return r.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return r.lost(fmt.Errorf("it does not answer within %v", r.target.Patience))
	}
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Unavailable, codes.Canceled:
		return r.lost(fmt.Errorf("it is away: %s", status.Convert(err).Message()))
	case codes.PermissionDenied:
		return r.lost(fmt.Errorf("this process controls it no longer: %s", status.Convert(err).Message()))
	case codes.FailedPrecondition:
		return r.lost(errors.New(status.Convert(err).Message()))
	}
	return err
}

// Gone implements [p4.Switch].
func (r *Remote) Gone() <-chan struct{} { return r.gone }

// Err implements [p4.Switch].
func (r *Remote) Err() error {
	r.state.Lock()
	defer r.state.Unlock()
	return r.failed
}

// ForCPU implements [p4.Switch].
func (r *Remote) ForCPU() <-chan p4.Left { return r.forCPU }

// Pause implements [p4.Switch]. The switch counts holds, and ends them with the stream.
func (r *Remote) Pause(paused bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pause(paused)
}

func (r *Remote) pause(paused bool) error {
	request, step := &switchv1.Request{What: &switchv1.Request_Release{Release: new(switchv1.Release)}}, -1
	if paused {
		request, step = &switchv1.Request{What: &switchv1.Request_Hold{Hold: new(switchv1.Hold)}}, 1
	}
	_, err := r.ask(request)
	if err == nil {
		r.holds += step
	}
	return err
}

// Try implements [p4.Switch].
func (r *Remote) Try(port int, frame []byte) ([]p4.Left, error) {
	if r.plain {
		return r.tryPacket(port, frame)
	}
	answer, err := r.ask(&switchv1.Request{What: &switchv1.Request_Try{
		Try: &switchv1.Packet{Port: uint32(port), Frame: frame},
	}})
	if err != nil {
		return nil, err
	}
	var all []p4.Left
	for _, l := range answer.GetLeft() {
		all = append(all, p4.Left{Port: int(l.GetPort()), Frame: bytes.Clone(l.GetFrame())})
	}
	return all, nil
}

// Put implements [p4.Switch]. Later requests of the stream, such as a hold, are handled after it.
func (r *Remote) Put(port int, frame []byte) error {
	return r.packet(frame, map[string]uint64{portField: uint64(port), nowField: r.clock.Load()})
}

// SetClock implements [p4.Switch].
func (r *Remote) SetClock(now uint64) error {
	if r.plain {
		r.clock.Store(now)
		return nil
	}
	_, err := r.ask(&switchv1.Request{What: &switchv1.Request_Clock{Clock: &switchv1.Clock{Stop: now}}})
	return err
}

// Close empties the switch's tables, so that it answers nothing any more, and leaves it.
func (r *Remote) Close() error {
	var err error
	r.closed.Do(func() {
		if r.Err() == nil {
			err = r.clear()
		}
		r.lose(errors.New("this process left it"))
		err = errors.Join(err, r.end())
	})
	return err
}
