package access

import (
	"encoding/base64"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra"
	"palyra/internal/store"
)

func (b *bench) check(sig palyra.Signature) error {
	_, _, err := b.CheckIntent(b.t.Context(), sig)
	return err
}

func TestIntentGivesEvidence(t *testing.T) {
	b := newBench(t)
	op, ev, err := b.CheckIntent(t.Context(), b.sign(b.owner, nil))
	if err != nil || op.Principal != "user:alice" || op.Role != palyra.RoleOwner {
		t.Fatalf("%+v %v", op, err)
	}
	if ev.PublicKey != b.owner.PublicKey || ev.Fields["path"] != "/w" || ev.Sig == "" {
		t.Errorf("%+v", ev)
	}
	if _, err := b.verify(op, ev); err != nil {
		t.Errorf("the evidence does not verify: %v", err)
	}
}

func TestIntentCountsOnce(t *testing.T) {
	b := newBench(t)
	sig := b.sign(b.owner, nil)
	if err := b.check(sig); err != nil {
		t.Fatal(err)
	}
	b.wants(b.check(sig), palyra.ReasonReplayedSignature)
	b.open() // the use is durable
	b.wants(b.check(sig), palyra.ReasonReplayedSignature)
}

func TestIntentRace(t *testing.T) {
	b := newBench(t)
	sig := b.sign(b.owner, nil)
	var wg sync.WaitGroup
	var won atomic.Int64
	for range 32 {
		wg.Go(func() {
			if b.check(sig) == nil {
				won.Add(1)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("one signature was accepted %d times", won.Load())
	}
}

func TestIntentRefused(t *testing.T) {
	b := newBench(t)
	stranger := newPerson("mallory", palyra.RoleOwner)
	imposter := person{Operator: b.owner.Operator, private: stranger.private}
	removed := b.add("bob", palyra.RoleAdmin)
	if err := b.RemoveOperator(t.Context(), removed.KeyID, b.sign(b.owner, nil)); err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) func(*palyra.Intent) {
		return func(i *palyra.Intent) { i.Time = palyra.Time(b.now.Add(d)) }
	}
	altered := func(change func(*palyra.Signature)) palyra.Signature {
		s := b.sign(b.owner, nil)
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		sig  palyra.Signature
		want palyra.Reason
	}{
		"unknown key":   {b.sign(stranger, nil), palyra.ReasonUnknownKey},
		"removed key":   {b.sign(removed, nil), palyra.ReasonUnknownKey},
		"imposter":      {b.sign(imposter, nil), palyra.ReasonBadSignature},
		"other daemon":  {b.sign(b.owner, func(i *palyra.Intent) { i.Audience = "state-2" }), palyra.ReasonBadSignature},
		"no audience":   {b.sign(b.owner, func(i *palyra.Intent) { i.Audience = "" }), palyra.ReasonBadSignature},
		"no nonce":      {b.sign(b.owner, func(i *palyra.Intent) { i.Nonce = "" }), palyra.ReasonBadSignature},
		"no method":     {b.sign(b.owner, func(i *palyra.Intent) { i.Method = "" }), palyra.ReasonBadSignature},
		"bad time":      {b.sign(b.owner, func(i *palyra.Intent) { i.Time = "now" }), palyra.ReasonBadSignature},
		"other body":    {b.sign(b.owner, func(i *palyra.Intent) { i.Body = "sha256:0" }), palyra.ReasonBadSignature},
		"too old":       {b.sign(b.owner, at(-palyra.IntentWindow-time.Second)), palyra.ReasonStaleSignature},
		"from tomorrow": {b.sign(b.owner, at(palyra.IntentWindow+time.Second)), palyra.ReasonStaleSignature},
		"other method":  {altered(func(s *palyra.Signature) { s.Intent.Method = "palyra.v1.X/Z" }), palyra.ReasonBadSignature},
		"other plan":    {altered(func(s *palyra.Signature) { s.Intent.PlanDigest = "sha256:1" }), palyra.ReasonBadSignature},
		"other nonce":   {altered(func(s *palyra.Signature) { s.Intent.Nonce = "AAECAwQFBgcICQoLDA0ODw" }), palyra.ReasonBadSignature},
		"later":         {altered(func(s *palyra.Signature) { s.Intent.Time = palyra.Time(b.now.Add(time.Second)) }), palyra.ReasonBadSignature},
		"other fields":  {altered(func(s *palyra.Signature) { s.Fields = map[string]any{"path": "/etc"} }), palyra.ReasonBadSignature},
		"no fields":     {altered(func(s *palyra.Signature) { s.Fields = nil }), palyra.ReasonBadSignature},
		"empty sig":     {altered(func(s *palyra.Signature) { s.Sig = "" }), palyra.ReasonBadSignature},
		"not base64":    {altered(func(s *palyra.Signature) { s.Sig = "!" }), palyra.ReasonBadSignature},
		"zero signature": {
			altered(func(s *palyra.Signature) { s.Sig = base64.StdEncoding.EncodeToString(make([]byte, 64)) }),
			palyra.ReasonBadSignature,
		},
	} {
		err := b.check(c.sig)
		if err == nil || palyra.AsError(err).Reason != c.want || palyra.CodeOf(err) != palyra.Denied {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if err := b.check(b.sign(b.owner, at(-palyra.IntentWindow))); err != nil {
		t.Errorf("at the window's edge: %v", err)
	}
}

func TestClockSetBackRevivesNothing(t *testing.T) {
	b := newBench(t)
	sig := b.sign(b.owner, nil)
	if err := b.check(sig); err != nil {
		t.Fatal(err)
	}
	start := b.now
	b.now = start.Add(keep + time.Hour)
	if err := b.check(b.sign(b.owner, nil)); err != nil { // forgets the first one
		t.Fatal(err)
	}
	if n := b.count("access_intents"); n != 1 {
		t.Errorf("%d signatures remembered", n)
	}
	b.now = start
	b.wants(b.check(sig), palyra.ReasonStaleSignature)
	b.open()
	b.wants(b.check(sig), palyra.ReasonStaleSignature)
}

func (b *bench) count(table string) (n int64) {
	b.t.Helper()
	err := b.DB.Read(b.t.Context(), func(tx *store.Tx) error { return tx.Get("SELECT COUNT(*) FROM "+table, nil, &n) })
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

func TestBadSignaturesWriteNothing(t *testing.T) {
	b := newBench(t)
	before := b.count("access_intents")
	for range 8 {
		_ = b.check(b.sign(newPerson("mallory", palyra.RoleOwner), nil))
	}
	if b.count("access_intents") != before {
		t.Error("a stranger makes the daemon write")
	}
}
