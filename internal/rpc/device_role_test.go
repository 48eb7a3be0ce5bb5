package rpc_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"palyra"
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
	if got := said(phone, "/palyra.v1.JournalService/GetHead"); !strings.Contains(got, "the device phone has the role approver, which does not hold the permission") ||
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
