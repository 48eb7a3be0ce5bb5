package pairing

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/tls"
	"net"
	"time"

	"palyra"
	"palyra/internal/pairing/cpace"
)

// Serve speaks with one device and closes the connection. It returns when the
// device is paired, refused or gone, or when ctx ends.
func (o *Office) Serve(ctx context.Context, conn *tls.Conn) {
	defer func() { _ = conn.Close() }() // whatever was to be said has been said
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	address := conn.RemoteAddr().String()
	w := wire{conn: conn, patience: o.patience}
	if !tryAcquire(o.slots) {
		o.refuseCrowd(ctx, w, address)
		return
	}
	defer func() { <-o.slots }()
	if _, err := o.live(false); err != nil { // no code can be guessed now: that costs no try
		w.refuse(err)
		o.turnedAway(ctx, palyra.AsError(err).Reason, address)
		return
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	done, after, ok := o.c.Limit.Try(host)
	if !ok {
		w.refuse(problem(palyra.ReasonRateLimited).WithAfter(after))
		o.turnedAway(ctx, palyra.ReasonRateLimited, address)
		return
	}
	v := &visit{o: o, w: w, conn: conn, address: address}
	err = v.run(ctx)
	done(v.proven)
	if err != nil {
		w.refuse(err)
	}
}

func tryAcquire(slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// refuseCrowd tells a device that there are too many connections; beyond a number it hangs up without a word.
func (o *Office) refuseCrowd(ctx context.Context, w wire, address string) {
	if !tryAcquire(o.turned) {
		return
	}
	defer func() { <-o.turned }()
	w.patience = min(w.patience, time.Second)
	w.refuse(problem(palyra.ReasonPairingBusy))
	o.turnedAway(ctx, palyra.ReasonPairingBusy, address)
}

// visit is one device's connection.
type visit struct {
	o       *Office
	w       wire
	conn    *tls.Conn
	address string

	binding binding
	key     ed25519.PublicKey
	proven  bool
}

func (v *visit) run(ctx context.Context) error {
	f, err := v.arrive(ctx)
	if err != nil {
		v.o.turnedAway(ctx, palyra.AsError(err).Reason, v.address)
		return err
	}
	hello, err := v.hello()
	if err == nil {
		err = f.try(v.o.c.Now(), v.address)
	}
	if err != nil {
		v.o.turnedAway(ctx, palyra.AsError(err).Reason, v.address)
		return err
	}
	s, err := v.prove(f, hello)
	if err != nil {
		why := palyra.ReasonPairingBroken // whatever the device may call it
		if palyra.AsError(err).Reason == palyra.ReasonPairingWrongCode {
			why = palyra.ReasonPairingWrongCode
		}
		why, n := f.miss(why)
		v.o.failed(ctx, palyra.PairingFailed{Pairing: f.id, Reason: why, Address: v.address, Tries: n})
		return problem(why)
	}
	c := v.candidate(f, hello.Name)
	asking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := f.prove(v.o.c.Now(), c, cancel); err != nil {
		v.o.failed(ctx, palyra.PairingFailed{
			Pairing: c.Pairing, Reason: palyra.AsError(err).Reason, Address: v.address,
			Tries: f.snapshot().Tries,
		})
		return err
	}
	v.proven = true
	v.admit(asking, f, s, c)
	return nil
}

// arrive finishes the handshake and looks at who came.
func (v *visit) arrive(ctx context.Context) (*offer, error) {
	ctx, stop := context.WithTimeout(ctx, v.w.patience)
	defer stop()
	if err := v.conn.HandshakeContext(ctx); err != nil {
		return nil, broken(err)
	}
	state := v.conn.ConnectionState()
	key, own, err := deviceKey(state)
	if err != nil {
		return nil, broken(err)
	}
	leaf, err := v.o.c.Leaf(state.ServerName)
	if err != nil {
		return nil, broken(err)
	}
	b, err := bind(state, leaf, own)
	if err != nil {
		return nil, broken(err)
	}
	v.key, v.binding = key, b
	return v.o.live(false)
}

func (v *visit) hello() (message, error) {
	m, err := v.w.receive(v.w.patience, typeHello)
	if err != nil {
		return m, broken(err) // whatever the device may call it
	}
	if CheckName(m.Name) != nil || m.Method != methodPIN && m.Method != methodQR {
		return m, broken(errFrame)
	}
	return m, nil
}

// prove has the device show that it knows the code.
func (v *visit) prove(f *offer, hello message) (sharedKey, error) {
	if hello.Method == methodQR {
		return v.proveToken(f, hello)
	}
	f.mu.Lock()
	x, err := v.binding.exchange(f.pin)
	f.mu.Unlock()
	if err != nil {
		return sharedKey{}, broken(err)
	}
	share := x.Message()
	s, err := v.binding.pinSession(x, hello.Share, cpace.Responder, hello.Name)
	if err != nil {
		return sharedKey{}, broken(err)
	}
	if err := v.w.send(message{Type: typeShare, Share: share}); err != nil {
		return sharedKey{}, err
	}
	m, err := v.w.receive(v.w.patience, typeConfirm)
	if err != nil {
		return sharedKey{}, err
	}
	if !s.check(m.Tag, labelDevice) {
		return sharedKey{}, problem(palyra.ReasonPairingWrongCode)
	}
	return s, nil
}

func (v *visit) proveToken(f *offer, hello message) (sharedKey, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	want, err := v.binding.qrProof(f.token)
	if err != nil {
		return sharedKey{}, broken(err)
	}
	if !hmac.Equal(hello.Tag, want) {
		return sharedKey{}, problem(palyra.ReasonPairingWrongCode)
	}
	return v.binding.qrSession(f.token)
}

func (v *visit) candidate(f *offer, name string) Candidate {
	return Candidate{
		Pairing: f.id, Name: name, KeyID: KeyID(v.key), PublicKey: publicText(v.key),
		Address: v.address, Fingerprint: Fingerprint(v.key), Principal: f.what.Principal, Role: f.what.Role, By: f.what.By,
	}
}
