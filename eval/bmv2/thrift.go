package bmv2

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/apache/thrift/lib/go/thrift"
)

// service is the name of BMv2's runtime service on its multiplexed connection.
const service = "standard"

// batchCalls are sent before the first answer is read. The answers of a batch fit into the buffers of a connection.
const batchCalls = 256

const bufferBytes = 1 << 16

// callsOfConnection are made before the client opens another connection: the Thrift library of BMv2 closes a connection
// that has carried 100 MB, whatever the lengths of its messages.
const callsOfConnection = 100_000

// client makes calls of BMv2's Thrift service. It has no lock.
type client struct {
	dial     func() (net.Conn, error)
	conn     net.Conn
	protocol *thrift.TMultiplexedProtocol
	sequence int32 // of the last call on this connection
}

// argument is a value of a call.
type argument struct {
	kind  thrift.TType
	write func(context.Context, thrift.TProtocol) error
}

// call is a request, and the reader of its result.
type call struct {
	method string
	args   []argument
	result func(context.Context, thrift.TProtocol) error // nil: none
}

// refused is an error that BMv2 answers with, by its code.
type refused struct {
	method string
	code   int32
}

// tableMethods begin the names of the methods for tables.
const tableMethods = "bm_mt_"

// Codes of table operations, in BMv2's order.
var tableErrors = map[int32]string{
	1: "the table is full", 6: "no such counter", 7: "no such table", 8: "no such action", 17: "a second entry with the same key",
	18: "a key of another length", 26: "arguments of another number or length",
}

func (e *refused) Error() string {
	if text, ok := tableErrors[e.code]; ok && strings.HasPrefix(e.method, tableMethods) {
		return fmt.Sprintf("%s: %s", e.method, text)
	}
	return fmt.Sprintf("%s: error %d", e.method, e.code)
}

func newClient(dial func() (net.Conn, error)) (*client, error) {
	c := &client{dial: dial}
	return c, c.connect()
}

func (c *client) connect() error {
	conn, err := c.dial()
	if err != nil {
		return err
	}
	conf := &thrift.TConfiguration{}
	transport := thrift.NewTBufferedTransport(thrift.NewTSocketFromConnConf(conn, conf), bufferBytes)
	c.protocol = thrift.NewTMultiplexedProtocol(thrift.NewTBinaryProtocolConf(transport, conf), service)
	c.conn, c.sequence = conn, 0
	return nil
}

// do makes calls in their order. All are made; the first error is returned.
func (c *client) do(calls ...call) error {
	var failed error
	for len(calls) > 0 {
		if c.sequence > callsOfConnection {
			if err := errors.Join(c.conn.Close(), c.connect()); err != nil {
				return err
			}
		}
		batch := calls[:min(len(calls), batchCalls)]
		calls = calls[len(batch):]
		if err := c.batch(batch); err != nil {
			var why *refused
			if !errors.As(err, &why) {
				return err
			}
			if failed == nil {
				failed = err
			}
		}
	}
	return failed
}

func (c *client) batch(calls []call) error {
	ctx := context.Background()
	for i := range calls {
		c.sequence++
		if err := calls[i].send(ctx, c.protocol, c.sequence); err != nil {
			return err
		}
	}
	if err := c.protocol.Flush(ctx); err != nil {
		return err
	}
	var failed error
	for i := range calls {
		if err := calls[i].receive(ctx, c.protocol); err != nil {
			var why *refused
			if !errors.As(err, &why) {
				return err
			}
			if failed == nil {
				failed = err
			}
		}
	}
	return failed
}

func (c *call) send(ctx context.Context, p thrift.TProtocol, sequence int32) error {
	if err := p.WriteMessageBegin(ctx, c.method, thrift.CALL, sequence); err != nil {
		return err
	}
	if err := structure(c.args...).write(ctx, p); err != nil {
		return err
	}
	return p.WriteMessageEnd(ctx)
}

func (c *call) receive(ctx context.Context, p thrift.TProtocol) error {
	_, kind, _, err := p.ReadMessageBegin(ctx)
	if err != nil {
		return err
	}
	if kind == thrift.EXCEPTION {
		why := thrift.NewTApplicationException(thrift.UNKNOWN_APPLICATION_EXCEPTION, c.method)
		if err := why.Read(ctx, p); err != nil {
			return err
		}
		return errors.Join(why, p.ReadMessageEnd(ctx))
	}
	var code int32
	bad := false
	err = fields(ctx, p, func(id int16, kind thrift.TType) error {
		switch {
		case id == 0 && c.result != nil:
			return c.result(ctx, p)
		case id == 1 && kind == thrift.STRUCT:
			bad = true
			return fields(ctx, p, func(int16, thrift.TType) (err error) {
				code, err = p.ReadI32(ctx)
				return err
			})
		}
		return p.Skip(ctx, kind)
	})
	if err == nil {
		err = p.ReadMessageEnd(ctx)
	}
	if err == nil && bad {
		err = &refused{c.method, code}
	}
	return err
}

// fields reads a structure, whose fields visit reads.
func fields(ctx context.Context, p thrift.TProtocol, visit func(id int16, kind thrift.TType) error) error {
	if _, err := p.ReadStructBegin(ctx); err != nil {
		return err
	}
	for {
		_, kind, id, err := p.ReadFieldBegin(ctx)
		if err != nil {
			return err
		}
		if kind == thrift.STOP {
			return p.ReadStructEnd(ctx)
		}
		if err := visit(id, kind); err != nil {
			return err
		}
		if err := p.ReadFieldEnd(ctx); err != nil {
			return err
		}
	}
}

// structure has fields that are numbered from 1.
func structure(values ...argument) argument {
	return argument{thrift.STRUCT, func(ctx context.Context, p thrift.TProtocol) error {
		if err := p.WriteStructBegin(ctx, ""); err != nil {
			return err
		}
		for i, v := range values {
			if err := p.WriteFieldBegin(ctx, "", v.kind, int16(i+1)); err != nil {
				return err
			}
			if err := v.write(ctx, p); err != nil {
				return err
			}
			if err := p.WriteFieldEnd(ctx); err != nil {
				return err
			}
		}
		if err := p.WriteFieldStop(ctx); err != nil {
			return err
		}
		return p.WriteStructEnd(ctx)
	}}
}

func list(kind thrift.TType, values []argument) argument {
	return argument{thrift.LIST, func(ctx context.Context, p thrift.TProtocol) error {
		if err := p.WriteListBegin(ctx, kind, len(values)); err != nil {
			return err
		}
		for _, v := range values {
			if err := v.write(ctx, p); err != nil {
				return err
			}
		}
		return p.WriteListEnd(ctx)
	}}
}

func i32(v int32) argument {
	return argument{thrift.I32, func(ctx context.Context, p thrift.TProtocol) error { return p.WriteI32(ctx, v) }}
}

func i64(v int64) argument {
	return argument{thrift.I64, func(ctx context.Context, p thrift.TProtocol) error { return p.WriteI64(ctx, v) }}
}

func text(v string) argument {
	return argument{thrift.STRING, func(ctx context.Context, p thrift.TProtocol) error { return p.WriteString(ctx, v) }}
}

func bytesOf(v []byte) argument {
	return argument{thrift.STRING, func(ctx context.Context, p thrift.TProtocol) error { return p.WriteBinary(ctx, v) }}
}
