package cpace

import (
	"bytes"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/gtank/ristretto255"
)

// The vectors are those of draft-irtf-cfrg-cpace-21, appendices A and B.3.
const (
	vPRS    = "50617373776f7264"
	vCI     = "0b415f696e69746961746f720b425f726573706f6e646572"
	vSID    = "7e4b4791d6a8ef019b936c79fb7f2c57"
	vString = "11435061636552697374726574746f3235350850617373776f726464" +
		"00000000000000000000000000000000000000000000000000000000" +
		"00000000000000000000000000000000000000000000000000000000" +
		"00000000000000000000000000000000000000000000000000000000" +
		"00000000000000000000000000000000180b415f696e69746961746f" +
		"720b425f726573706f6e646572107e4b4791d6a8ef019b936c79fb7f2c57"
	vHash = "da6d3ddc8802fca9058755ffd3ebde08a9c2c74945901a258482a288" +
		"b6663af06bf645c93cd1c51512307199c80e84908916d983b34af77205f90851a657ee27"
	vG     = "222b6b195fe84b1652badb6f6a3ae3d24341e7306967f0b8115b40d5698c7e56"
	vya    = "da3d23700a9e5699258aef94dc060dfda5ebb61f02a5ea77fad53f4ff0976d08"
	vYa    = "d6bac480f2c386c394efc7c47adb9925dcd2630b64f240c50f8d0eec482b9157"
	vyb    = "d2316b454718c35362d83d69df6320f38578ed5984651435e2949762d900b80d"
	vYb    = "3ea7e0b19560d7c0b0f5734f63b955286dfa8232b5ebe63324e2d9e7433f7258"
	vK     = "80b69a8a76457ab6a4d7f887a4bf6b55a2f80ac19c333f917a05fc9887c8b40f"
	vTrans = "20d6bac480f2c386c394efc7c47adb9925dcd2630b64f240c50f8d0e" +
		"ec482b915703414461203ea7e0b19560d7c0b0f5734f63b955286dfa8232b5ebe63324e2d9e7433f725803414462"
	vISK = "b69effbf61b51d56401c0f65601abe428de8206feaaf0e32198896dc" +
		"ae7b35cd2b38950a39dfd5d4a79164614c2984f7daa460b588c1e80c3fa2068af7900447"

	vScalar  = "7cd0e075fa7955ba52c02759a6c90dbbfc10e6d40aea8d283e407d88cf538a05"
	vPoint   = "2c3c6b8c4f3800e7aef6864025b4ed79bd599117e427c41bd47d93d654b4a51c"
	vProduct = "7c13645fe790a468f62c39beb7388e541d8405d1ade69d1778c5fe3e7f6b600e"
	vBad1    = "2b3c6b8c4f3800e7aef6864025b4ed79bd599117e427c41bd47d93d654b4a51c"
	vBad2    = "0000000000000000000000000000000000000000000000000000000000000000"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func scalar(t testing.TB, s string) *ristretto255.Scalar {
	t.Helper()
	y, err := ristretto255.NewScalar().SetCanonicalBytes(unhex(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return y
}

func equal(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	if hex.EncodeToString(got) != want {
		t.Errorf("%s = %x, want %s", what, got, want)
	}
}

func vectors(t testing.TB) (a, b *Exchange) {
	t.Helper()
	prs, ci, sid := unhex(t, vPRS), unhex(t, vCI), unhex(t, vSID)
	a, err := start(prs, ci, sid, scalar(t, vya))
	if err != nil {
		t.Fatal(err)
	}
	if b, err = start(prs, ci, sid, scalar(t, vyb)); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func TestStringVectors(t *testing.T) {
	count := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(i)
		}
		return b
	}
	equal(t, "LV()", LV(nil), "00")
	equal(t, "LV(1234)", LV([]byte("1234")), "0431323334")
	equal(t, "LV(127)", LV(count(127)), "7f"+hex.EncodeToString(count(127)))
	equal(t, "LV(128)", LV(count(128)), "8001"+hex.EncodeToString(count(128)))
	equal(t, "LV of four", LV([]byte("1234"), []byte("5"), nil, []byte("6789")), "04313233340135000436373839")
	equal(t, "transcript", transcript([]byte("123"), []byte("PartyA"), []byte("234"), []byte("PartyB")),
		"03313233065061727479410332333406506172747942")
	equal(t, "transcript", transcript([]byte("3456"), []byte("PartyA"), []byte("2345"), []byte("PartyB")),
		"043334353606506172747941043233343506506172747942")
}

func TestGeneratorVectors(t *testing.T) {
	prs, ci, sid := unhex(t, vPRS), unhex(t, vCI), unhex(t, vSID)
	text := generatorString(prs, ci, sid)
	equal(t, "generator string", text, vString)
	hash := sha512.Sum512(text)
	equal(t, "hash", hash[:], vHash)
	g, err := generator(prs, ci, sid)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "generator", g.Bytes(), vG)
}

func TestExchangeVectors(t *testing.T) {
	a, b := vectors(t)
	equal(t, "Ya", a.Message(), vYa)
	equal(t, "Yb", b.Message(), vYb)
	equal(t, "transcript", transcript(a.Message(), []byte("ADa"), b.Message(), []byte("ADb")), vTrans)
	for _, c := range []struct{ y, Y string }{{vya, vYb}, {vyb, vYa}} {
		k, err := multiply(scalar(t, c.y), unhex(t, c.Y))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "K", k, vK)
	}
	ka, err := a.Finish(b.Message(), Initiator, []byte("ADa"), []byte("ADb"))
	if err != nil {
		t.Fatal(err)
	}
	kb, err := b.Finish(a.Message(), Responder, []byte("ADa"), []byte("ADb"))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "A's key", ka, vISK)
	equal(t, "B's key", kb, vISK)
}

func TestPointVectors(t *testing.T) {
	k, err := multiply(scalar(t, vScalar), unhex(t, vPoint))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "product", k, vProduct)
	for _, bad := range []string{vBad1, vBad2} {
		if k, err := multiply(scalar(t, vScalar), unhex(t, bad)); !errors.Is(err, ErrBadPoint) || k != nil {
			t.Errorf("multiply(%s) = %x, %v; want ErrBadPoint", bad, k, err)
		}
		for _, role := range []Side{Initiator, Responder} {
			a, _ := vectors(t)
			if k, err := a.Finish(unhex(t, bad), role, nil, nil); !errors.Is(err, ErrBadPoint) || k != nil {
				t.Errorf("Finish(%s) = %x, %v; want ErrBadPoint", bad, k, err)
			}
		}
	}
}

// TestEncodings gives what RFC 9496 wants refused: wrong lengths, values that are
// not reduced, negative ones, and ones that are no square.
func TestEncodings(t *testing.T) {
	for name, bad := range map[string][]byte{
		"empty":       {},
		"short":       unhex(t, vPoint)[:31],
		"long":        append(unhex(t, vPoint), 0),
		"not reduced": unhex(t, "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
		"above":       unhex(t, "f3ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
		"high bit":    unhex(t, "0000000000000000000000000000000000000000000000000000000000000080"),
		"all ones":    bytes.Repeat([]byte{0xff}, 32),
		"negative":    unhex(t, "0100000000000000000000000000000000000000000000000000000000000000"),
		"no square":   unhex(t, "26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371"),
	} {
		a, _ := vectors(t)
		if k, err := a.Finish(bad, Initiator, nil, nil); !errors.Is(err, ErrBadPoint) || k != nil {
			t.Errorf("%s: Finish = %x, %v; want ErrBadPoint", name, k, err)
		}
	}
}

// run lets two sides talk and returns their keys.
func run(t testing.TB, a, b *Exchange, adA, adB string) (ka, kb []byte) {
	t.Helper()
	ya, yb := a.Message(), b.Message()
	ka, err := a.Finish(yb, Initiator, []byte(adA), []byte(adB))
	if err != nil {
		t.Fatal(err)
	}
	if kb, err = b.Finish(ya, Responder, []byte(adA), []byte(adB)); err != nil {
		t.Fatal(err)
	}
	return ka, kb
}

func fresh(t testing.TB, prs, ci, sid string) *Exchange {
	t.Helper()
	e, err := New([]byte(prs), []byte(ci), []byte(sid))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestKeysAgreeOnlyOnEverything(t *testing.T) {
	ka, kb := run(t, fresh(t, "12345678", "ci", "sid"), fresh(t, "12345678", "ci", "sid"), "a", "b")
	if !bytes.Equal(ka, kb) || len(ka) != KeySize {
		t.Fatalf("keys differ: %x, %x", ka, kb)
	}
	for name, other := range map[string][3]string{
		"password": {"12345679", "ci", "sid"},
		"channel":  {"12345678", "cj", "sid"},
		"session":  {"12345678", "ci", "sie"},
		"border":   {"12345678", "c", "isid"},
	} {
		ka, kb := run(t, fresh(t, "12345678", "ci", "sid"), fresh(t, other[0], other[1], other[2]), "a", "b")
		if bytes.Equal(ka, kb) {
			t.Errorf("another %s gives the same key", name)
		}
	}
}

func TestKeyCoversAssociatedDataAndRoles(t *testing.T) {
	a, b := vectors(t)
	kb, err := b.Finish(a.Message(), Responder, []byte("ADa"), []byte("ADx"))
	if err != nil {
		t.Fatal(err)
	}
	if hex.EncodeToString(kb) == vISK {
		t.Error("the key does not cover the associated data")
	}
	a, b = vectors(t)
	if kb, err = b.Finish(a.Message(), Initiator, []byte("ADa"), []byte("ADb")); err != nil {
		t.Fatal(err)
	}
	if hex.EncodeToString(kb) == vISK {
		t.Error("the key does not cover the roles")
	}
}

func TestMessagesAreFresh(t *testing.T) {
	seen := map[string]bool{}
	for range 64 {
		m := fresh(t, "12345678", "ci", "sid").Message()
		if len(m) != Size || seen[string(m)] {
			t.Fatalf("message %x: wrong length or seen before", m)
		}
		seen[string(m)] = true
	}
}

func TestMisuse(t *testing.T) {
	if _, err := New(nil, []byte("ci"), []byte("sid")); !errors.Is(err, ErrNoPassword) {
		t.Errorf("no password: %v", err)
	}
	if _, err := start([]byte("p"), nil, nil, ristretto255.NewScalar()); !errors.Is(err, ErrBadPoint) {
		t.Errorf("zero scalar: %v", err)
	}
	a, b := vectors(t)
	if _, err := a.Finish(a.Message(), Initiator, nil, nil); !errors.Is(err, ErrReflected) {
		t.Errorf("reflection: %v", err)
	}
	if _, err := a.Finish(b.Message(), Initiator, nil, nil); !errors.Is(err, ErrSpent) {
		t.Errorf("second use after a failure: %v", err)
	}
	if _, err := b.Finish(unhex(t, vYa), 0, nil, nil); !errors.Is(err, ErrRole) {
		t.Errorf("no role: %v", err)
	}
	m := fresh(t, "p", "", "")
	m.Message()[0] ^= 1
	if bytes.Equal(m.Message()[:1], []byte{m.message[0] ^ 1}) {
		t.Error("Message hands out the exchange's own bytes")
	}
}

// FuzzFinish: whatever the other side sends, there is an error or a key, the key
// is never one that does not depend on our secret, and a key for one encoding is
// not the key for another.
func FuzzFinish(f *testing.F) {
	for _, s := range []string{vYb, vPoint, vBad1, vBad2, ""} {
		f.Add(unhex(f, s))
	}
	identity := sha512.Sum512(append(LV([]byte(dsiISK), []byte("sid"), make([]byte, 32)), transcript(nil, nil, nil, nil)...))
	f.Fuzz(func(t *testing.T, peer []byte) {
		a, b := fresh(t, "p", "ci", "sid"), fresh(t, "p", "ci", "sid")
		ka, errA := a.Finish(peer, Initiator, nil, nil)
		kb, errB := b.Finish(peer, Initiator, nil, nil)
		if (errA == nil) != (errB == nil) {
			t.Fatalf("accepted by one only: %v, %v", errA, errB)
		}
		if errA != nil {
			return
		}
		if len(peer) != Size || bytes.Equal(ka, kb) || bytes.Equal(ka, identity[:]) {
			t.Fatalf("%x gives a key that is not ours alone", peer)
		}
	})
}
