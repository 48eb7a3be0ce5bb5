package rpc_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
	"palyra/api/gen/palyra/v1/palyrav1connect"
	"palyra/internal/rpc/rpctest"
	"palyra/internal/rpc/wire"
)

// What a device may not do is not said to be what its person may not.
func TestTheDeviceIsNamedNotThePerson(t *testing.T) {
	w := newWorld(t, nil)
	said := func(d *device, procedure string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.base+procedure, strings.NewReader("{}"))
		w.must(err)
		req.Header.Set("Content-Type", "application/json")
		res, err := d.http.Do(req)
		w.must(err)
		defer func() { _ = res.Body.Close() }()
		raw, err := io.ReadAll(res.Body)
		w.must(err)
		return string(raw)
	}
	phone := w.pair("phone", palyra.RoleApprover)
	if got := said(phone, "/palyra.v1.JournalService/GetHead"); !strings.Contains(got,
		"the device phone has the role approver, which does not hold the permission") ||
		strings.Contains(got, "user:alice needs") {
		t.Error(got)
	}
	// Of a person who may not either it is said as it is.
	w.person("bob", palyra.RoleOwner)
	_, err := w.registry.ChangeUser(t.Context(), palyra.User{Principal: "user:alice", Role: palyra.RoleViewer}, w.by())
	w.must(err)
	if got := said(phone, "/palyra.v1.JournalService/GetHead"); !strings.Contains(got, "user:alice needs the permission") {
		t.Error(got)
	}
}

// What helps a device is a role that holds the permission, and not the one it has.
func TestTheRemedyNamesARoleThatHelps(t *testing.T) {
	w := newWorld(t, nil)
	for has, want := range map[palyra.Role]string{
		palyra.RoleViewer: "--role admin;", palyra.RoleOperator: "--role admin;",
		palyra.RoleAdmin: "",
	} {
		d := w.pair("a-"+string(has), has)
		m := find(t, "AddUser")
		msg := m.request(t).(*v1.AddUserRequest)
		ctx, info := connect.NewClientContext(t.Context())
		for k, v := range intent(d.key.intent(t, m, msg, rpctest.StateID, time.Now())) {
			info.RequestHeader()[k] = v
		}
		_, err := palyrav1connect.NewAccessServiceClient(d.http, d.base).AddUser(ctx, msg)
		if e := wire.FromStatus(err); want == "" && err != nil || want != "" && !strings.Contains(e.Remedy, want) {
			t.Errorf("%s: %+v", has, e)
		}
	}
}
