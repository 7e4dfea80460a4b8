package security

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/netcraq/netcraq/api/agentv1"
	"github.com/netcraq/netcraq/api/controllerv1"
)

// line is one of an audit.
type line struct{ Msg, Call, By, Role, From, Request, Outcome string }

// TestChangesAreAudited: each call that changes something leaves a line, also one that is refused, and reads leave none.
func TestChangesAreAudited(t *testing.T) {
	dir := makeIn(t, t.TempDir())
	log := new(bytes.Buffer)
	addr := serveWith(t, identity(t, dir, Controller), slog.New(slog.NewJSONHandler(log, nil)))
	drain := &controllerv1.OperateRequest{Kind: &controllerv1.OperateRequest_Drain{Drain: "n1"}}
	operator := dial(t, addr, identity(t, dir, Operator).DialOption())
	reader := dial(t, addr, identity(t, dir, Reader).DialOption())
	read := func(conn *grpc.ClientConn) {
		_, _ = controllerv1.NewControllerClient(conn).Controllers(t.Context(), &controllerv1.ControllersRequest{})
	}
	operate(operator, drain)
	operate(reader, drain)
	read(operator)
	secret := &controllerv1.SetKeyspaceRequest{
		Keyspace: &controllerv1.Keyspace{Name: "default", Secret: []byte("a secret")},
	}
	_, _ = controllerv1.NewControllerClient(operator).SetKeyspace(t.Context(), secret)
	open := serveWith(t, nil, slog.New(slog.NewJSONHandler(log, nil)))
	configs := &agentv1.ConfigureRequest{Configs: make([]*agentv1.ShardConfig, 500)}
	anybody := dial(t, open, grpc.WithTransportCredentials(insecure.NewCredentials()))
	_, _ = agentv1.NewAgentClient(anybody).Configure(t.Context(), configs)

	var got []line
	for text := range strings.Lines(log.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		if l.Msg != "audit" || !strings.HasPrefix(l.From, "127.0.0.1:") || len(l.Request) > auditedBytes+len("...") {
			t.Errorf("%+v", l)
		}
		got = append(got, line{Call: l.Call[strings.LastIndex(l.Call, "/")+1:], By: l.By, Role: l.Role, Outcome: l.Outcome})
	}
	want := []line{
		{Call: "Operate", By: "netcraq operator", Role: "operator", Outcome: "Unimplemented"},
		{Call: "Operate", By: "netcraq reader", Role: "reader", Outcome: "PermissionDenied"},
		{Call: "SetKeyspace", By: "netcraq operator", Role: "operator", Outcome: "Unimplemented"},
		{Call: "Configure", By: "no certificate", Outcome: "Unimplemented"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("audited:\n%+v\nwant:\n%+v", got, want)
	}
	text, hidden := log.String(), base64.StdEncoding.EncodeToString(secret.GetKeyspace().GetSecret())
	if !strings.Contains(text, "n1") || !strings.Contains(text, "default") || strings.Contains(text, hidden) {
		t.Errorf("the lines lack the request, or have the secret:\n%s", text)
	}
}
