//go:build linux

package client_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"palyra"
	"palyra/client"
	"palyra/internal/agefile"
	"palyra/internal/rpc/rpctest"
)

func TestMain(m *testing.M) {
	agefile.Cheapen()
	goleak.VerifyTestMain(m)
}

// moved makes the remote's record name another address.
func moved(t *testing.T, dir, from, to string) *client.Remote {
	t.Helper()
	path := filepath.Join(dir, "work", "remote.json")
	raw, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, bytes.Replace(raw, []byte(`"address": "`+from+`",`+"\n"+`  "state`),
		[]byte(`"address": "`+to+`",`+"\n"+`  "state`), 1), 0o600))
	r, err := client.LoadRemote(dir, "work")
	must(t, err)
	if r.Address != to {
		t.Fatalf("at %s, not %s", r.Address, to)
	}
	return r
}

func status(t *testing.T, r *client.Remote) error {
	t.Helper()
	c, err := client.Open(client.Config{Remote: r, Door: client.OperatorDoor})
	must(t, err)
	defer c.Close()
	_, err = c.Status(t.Context())
	return err
}

func TestRemoteThatDoesNotAnswer(t *testing.T) {
	f, dir := newFar(t), filepath.Join(t.TempDir(), "remotes")
	r := f.join(dir)
	must(t, status(t, r))
	f.stop()
	named(t, status(t, r), client.ReasonNoDaemon)

	// Something else is there now.
	other := newFar(t)
	named(t, status(t, moved(t, dir, f.address, other.address)), palyra.ReasonBadCertificate)
	plain := listen(t)
	go func() {
		for c, err := plain.Accept(); err == nil; c, err = plain.Accept() {
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			_ = c.Close()
		}
	}()
	named(t, status(t, moved(t, dir, other.address, plain.Addr().String())), client.ReasonNoDaemon)
}

// A revoked device is told at once that it is refused, not that the daemon is gone.
func TestRemoteOfARevokedDevice(t *testing.T) {
	f := newFar(t)
	r := f.join(filepath.Join(t.TempDir(), "remotes"))
	f.revoke(r)
	err := status(t, r)
	named(t, err, palyra.ReasonDeviceRevoked)
	if !strings.Contains(palyra.AsError(err).Remedy, "revoked") {
		t.Errorf("%+v", err)
	}
	if _, err := r.Renew(t.Context()); palyra.AsError(err).Reason != palyra.ReasonDeviceRevoked {
		t.Errorf("%v", err)
	}
}

// A daemon that takes the connection and never speaks does not hold anybody who
// gives up.
func TestRemoteContextEnds(t *testing.T) {
	f, dir := newFar(t), filepath.Join(t.TempDir(), "remotes")
	f.join(dir)
	silent := listen(t)
	var held []net.Conn
	taken, over := make(chan struct{}, 8), make(chan struct{})
	go func() {
		defer close(over)
		for c, err := silent.Accept(); err == nil; c, err = silent.Accept() {
			held = append(held, c)
			taken <- struct{}{}
		}
	}()
	r := moved(t, dir, f.address, silent.Addr().String())
	c := f.open(client.Config{Remote: r, Door: client.OperatorDoor})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-taken
		cancel()
	}()
	if _, err := c.Status(ctx); palyra.AsError(err).Reason != palyra.ReasonCancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("%#v", err)
	}
	short, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if _, err := c.Status(short); palyra.AsError(err).Reason != palyra.ReasonTimedOut {
		t.Errorf("%#v", err)
	}
	must(t, silent.Close())
	<-over
	for _, c := range held {
		_ = c.Close()
	}
}

// A server that shakes hands and hangs up is not taken for one that answered.
func TestRemoteHangsUp(t *testing.T) {
	f, dir := newFar(t), filepath.Join(t.TempDir(), "remotes")
	f.join(dir)
	l := listen(t)
	conf := f.ca.Server(serverFor(f))
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_ = tls.Server(c, conf).HandshakeContext(context.Background())
			_ = c.Close()
		}
	}()
	named(t, status(t, moved(t, dir, f.address, l.Addr().String())), client.ReasonConnectionLost)
}

func TestRenew(t *testing.T) {
	f, dir := newFar(t), filepath.Join(t.TempDir(), "remotes")
	r := f.join(dir)
	ends, due := r.Expires()
	if life := time.Until(ends); life < 29*24*time.Hour || life > 31*24*time.Hour {
		t.Errorf("ends %v", ends)
	}
	if left := ends.Sub(due); left < 9*24*time.Hour || left > 11*24*time.Hour {
		t.Errorf("due %v before its end", left)
	}
	if did, err := r.RenewIfDue(t.Context(), due.Add(-time.Second)); did || err != nil {
		t.Errorf("too early: %v %v", did, err)
	}
	if did, err := r.RenewIfDue(t.Context(), ends); did || err != nil {
		t.Errorf("too late: %v %v", did, err)
	}
	f.ahead.Store(int64(time.Minute)) // certificates count whole seconds
	if did, err := r.RenewIfDue(t.Context(), due); !did || err != nil {
		t.Errorf("in time: %v %v", did, err)
	}
	later, next := r.Expires()
	if !later.After(ends) || !next.After(due) || !later.Equal(r.Copy().Device.ExpiresAt) {
		t.Errorf("%v %v, was %v %v", later, next, ends, due)
	}
	// The next one is on disk, and works; it was made from its own beginning on,
	// not from the pairing.
	again, err := client.LoadRemote(dir, "work")
	must(t, err)
	if e, d := again.Expires(); !e.Equal(later) || !d.Equal(next) || !bytes.Equal(again.Certificate, r.Copy().Certificate) {
		t.Errorf("%v %v", e, d)
	}
	must(t, status(t, again))
	// After a rotation the device learns the new authority by renewing.
	_, _, _, err = f.ca.Rotate(t.Context())
	must(t, err)
	must(t, status(t, again))
	if _, err := again.Renew(t.Context()); err != nil || len(again.Authorities) != 2 {
		t.Errorf("%d authorities, %v", len(again.Authorities), err)
	}
	must(t, status(t, again))
}

// What a device could not come in with is not kept, in memory or on disk.
func TestRenewalOfNoUse(t *testing.T) {
	f, dir := newFar(t), filepath.Join(t.TempDir(), "remotes")
	r := f.join(dir)
	before := r.Copy()
	good := func(d palyra.Device) (palyra.Device, []byte, [][]byte) {
		return d, before.Certificate, before.Authorities
	}
	for name, next := range map[string]func(palyra.Device) (palyra.Device, []byte, [][]byte, error){
		"garbage": func(d palyra.Device) (palyra.Device, []byte, [][]byte, error) {
			return d, []byte("certificate"), before.Authorities, nil
		},
		"nothing": func(d palyra.Device) (palyra.Device, []byte, [][]byte, error) { return d, nil, nil, nil },
		"no authority": func(d palyra.Device) (palyra.Device, []byte, [][]byte, error) {
			d, c, _ := good(d)
			return d, c, nil, nil
		},
		"another device's": func(d palyra.Device) (palyra.Device, []byte, [][]byte, error) {
			d, c, a := good(d)
			d.ID = rpctest.Laptop.ID
			return d, c, a, nil
		},
		"another record": func(d palyra.Device) (palyra.Device, []byte, [][]byte, error) {
			d, c, a := good(d)
			d.Certificate = palyra.SumBytes([]byte("x"))
			return d, c, a, nil
		},
	} {
		f.next = next
		_, err := r.Renew(t.Context())
		if palyra.AsError(err).Reason != palyra.ReasonBadCertificate {
			t.Errorf("%s: %v", name, err)
		}
		same(t, name, nil, r.Copy().Device, before.Device)
	}
	f.next = nil
	again, err := client.LoadRemote(dir, "work")
	must(t, err)
	if !bytes.Equal(again.Certificate, before.Certificate) {
		t.Error("another certificate is on disk")
	}
	must(t, status(t, again))
	// A renewal that cannot be stored is not used either: the next start would not
	// know it.
	must(t, os.Chmod(filepath.Join(dir, "work"), 0o700))
	must(t, os.Remove(filepath.Join(dir, "work", "remote.json")))
	must(t, os.Mkdir(filepath.Join(dir, "work", "remote.json"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "work", "remote.json", "x"), nil, 0o600))
	if _, err := again.Renew(t.Context()); palyra.AsError(err).Reason != palyra.ReasonConfig {
		t.Errorf("%v", err)
	}
	if !bytes.Equal(again.Copy().Certificate, before.Certificate) {
		t.Error("what is not stored is used")
	}
}
