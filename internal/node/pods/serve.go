package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// Plane is what the agent needs of a data plane.
type Plane interface {
	// AttachPod serves an interface of the machine, or makes sure that it is served. native says that the other end takes
	// frames that a driver sends.
	AttachPod(host string, native bool) (mode, why string, err error)
	// DetachPod ends that. The interface may be gone.
	DetachPod(host string) error
	// Pods lists the interfaces that are served.
	Pods() (hosts []string, err error)
}

// Server lets a data plane serve the interfaces that the records of a directory name.
type Server struct {
	dir      Dir
	address  netip.Addr
	log      *slog.Logger
	listener net.Listener
	plane    Plane // from Serve on

	mu     sync.Mutex
	served map[question]Answer
}

// Listen takes the socket of a directory, which it makes if need be, for a node that answers pods at an address.
func Listen(dir Dir, address netip.Addr, log *slog.Logger) (*Server, error) {
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return nil, fmt.Errorf("the directory of pods: %w", err)
	}
	if conn, err := net.Dial("unix", dir.socket()); err == nil {
		conn.Close()
		return nil, fmt.Errorf("another agent serves the pods of %s: end it, or choose another --pod-dir", dir)
	}
	if err := os.Remove(dir.socket()); err != nil && !errors.Is(err, os.ErrNotExist) { // of an agent that was killed
		return nil, fmt.Errorf("the socket for pods: %w", err)
	}
	listener, err := net.Listen("unix", dir.socket()) // root's alone, as the directory is
	if err != nil {
		return nil, fmt.Errorf("the socket for pods: %w", err)
	}
	return &Server{dir: dir, address: address, log: log, listener: listener,
		served: make(map[question]Answer)}, nil
}

// Close frees the socket of a server whose Serve is not called.
func (s *Server) Close() error { return s.listener.Close() }

// Serve attaches the plane as the records say, now and whenever a plugin asks, until ctx ends. Attachments stay.
func (s *Server) Serve(ctx context.Context, plane Plane) error {
	s.plane = plane
	stop := context.AfterFunc(ctx, func() { s.listener.Close() })
	defer stop()
	s.look()
	var serving sync.WaitGroup
	defer serving.Wait()
	for {
		conn, err := s.listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the socket for pods: %w", err)
		}
		serving.Go(func() {
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			if err := s.answer(conn); err != nil && ctx.Err() == nil {
				s.log.Warn("a CNI plugin got no answer", "because", err)
			}
		})
	}
}

func (s *Server) answer(conn net.Conn) error {
	var q question
	if err := conn.SetDeadline(time.Now().Add(askWithin)); err != nil {
		return err
	}
	if err := json.NewDecoder(conn).Decode(&q); err != nil {
		return err
	}
	s.look()
	return json.NewEncoder(conn).Encode(s.of(q))
}

// of is how an interface is served.
func (s *Server) of(q question) Answer {
	_, err := s.dir.Get(q.Container, q.Interface)
	if errors.Is(err, os.ErrNotExist) {
		return Answer{}
	}
	if err != nil {
		return Answer{Error: err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.served[q]
}

// look makes the attachments what the records say.
func (s *Server) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	records, err := s.dir.List()
	if err != nil {
		s.log.Warn("some pods are not served", "because", err)
	}
	wanted, named := make(map[string]bool), make(map[question]bool)
	for _, r := range records {
		wanted[r.Host], named[r.question()] = true, true
		s.attach(r)
	}
	attached, err := s.plane.Pods()
	if err != nil {
		s.log.Warn("interfaces of pods that are gone may still be served", "because", err)
	}
	for _, host := range attached {
		if wanted[host] {
			continue
		}
		if err := s.plane.DetachPod(host); err != nil {
			s.log.Warn("the interface of a pod that is gone is still served", "interface", host, "because", err)
		}
	}
	maps.DeleteFunc(s.served, func(q question, _ Answer) bool { return !named[q] })
}

// attach serves the interface of a record, and logs when that changes anything.
func (s *Server) attach(r Record) {
	var now Answer
	err := s.check(r)
	if err == nil {
		now.Mode, now.Why, err = s.plane.AttachPod(r.Host, r.Native)
	}
	if err != nil {
		now.Error = err.Error()
	}
	q := r.question() // not the host's end: the stale record of an earlier pod may name it too
	if s.served[q] == now {
		return
	}
	s.served[q] = now
	log := s.log.With("interface", r.Host, "container", r.Container)
	if err != nil {
		log.Warn("a pod is not served", "because", err)
		return
	}
	log.Info("a pod is served", "mode", now.Mode, "because", now.Why)
}

// check returns an error for a record that is not about an interface of now, or not about this agent's address.
func (s *Server) check(r Record) error {
	if r.Address != s.address {
		return fmt.Errorf("the pod sends to %v, and this node answers pods at %v: give the plugin and the node one address",
			r.Address, s.address)
	}
	i, err := net.InterfaceByName(r.Host)
	if err != nil {
		return fmt.Errorf("interface %s: %w", r.Host, err)
	}
	if i.Index != r.HostIndex {
		return fmt.Errorf("the record of %s is stale: interface %s has the number %d and had %d", r.Container, r.Host,
			i.Index, r.HostIndex)
	}
	return nil
}
