package rpc_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	v1 "palyra/api/gen/palyra/v1"
	"palyra/internal/rpc"
	"palyra/internal/rpc/rpctest"
	"palyra/internal/rpc/wire"
)

// What is kept of a signed request has nothing secret in it: every field of bytes, and every one that is called like a
// secret, is marked in the protocol, and stays out of the evidence whatever is in it.
func TestWhatIsKeptOfASignedRequest(t *testing.T) {
	marked := 0
	for _, m := range methods(t) {
		if !m.access.GetSigned() {
			continue
		}
		msg := m.request(t)
		fields := msg.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			fd := fields.Get(i)
			if fd.Kind() != protoreflect.BytesKind && !strings.Contains(string(fd.Name()), "passphrase") {
				continue
			}
			if hidden, _ := proto.GetExtension(fd.Options(), v1.E_Secret).(bool); !hidden {
				t.Errorf("%s is not marked as secret", fd.FullName())
				continue
			}
			marked++
			msg.ProtoReflect().Set(fd, protoreflect.ValueOfBytes([]byte("correct horse battery")))
		}
		all, err := wire.Fields(msg)
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprint(wire.Kept(msg, all)); strings.Contains(text, "Y29ycmVjdCBob3JzZSBiYXR0ZXJ5") {
			t.Errorf("%s keeps %s", m.Name(), text)
		}
	}
	if marked < 6 {
		t.Errorf("%d fields are marked as secret", marked)
	}
}

// The caller that a service is told of has evidence of the request without what is secret in it.
func TestEvidenceHasNoSecret(t *testing.T) {
	b := newBench(t, rpc.New)
	m := find(t, "PutSecret")
	msg := &v1.PutSecretRequest{Name: "token", Scope: "global", Value: []byte("correct horse battery"), Blind: make([]byte, 32)}
	if got := b.send("operator", m, msg, intent(b.owner.intent(t, m, msg, rpctest.StateID, time.Now()))); got != let {
		t.Fatal(got)
	}
	e := b.parts.Who().Evidence
	if e.Fields["value"] != "[redacted]" || e.Fields["blind"] != "[redacted]" || e.Fields["name"] != "token" || e.Sig == "" {
		t.Errorf("%+v", e)
	}
}
