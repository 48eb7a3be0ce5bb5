package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

const most = 1 << 16

func frame(t testing.TB, k Kind, v any, body ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, k, v, body...); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	large := bytes.Repeat([]byte("x"), 3<<20)
	b := frame(t, KindDone, Done{Reason: "r", Fuel: 1<<64 - 1, Output: 3}, []byte("abc"), large, nil, []byte("d"))
	b = append(b, frame(t, KindLoaded, nil)...)
	r := bufio.NewReader(iotest.OneByteReader(bytes.NewReader(b)))
	f, err := Read(r, 4<<20)
	var d Done
	if err != nil || f.As(KindDone, &d) != nil || d.Fuel != 1<<64-1 || len(f.Body) != len(large)+4 ||
		!bytes.HasPrefix(f.Body, []byte("abcx")) {
		t.Fatalf("%v %+v %d", err, d, len(f.Body))
	}
	if f, err = Read(r, 0); err != nil || f.As(KindLoaded, nil) != nil {
		t.Fatal(err)
	}
	if _, err = Read(r, 0); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if err := Write(io.Discard, KindRun, Invoke{Seed: make([]byte, MaxHead)}); !errors.Is(err, ErrFrame) {
		t.Error(err)
	}
}

func TestWhatIsNoFrame(t *testing.T) {
	whole := frame(t, KindAsk, Ask{Function: "log", Parts: []int{1}}, []byte("x"))
	for name, b := range map[string][]byte{
		"a huge head":      append([]byte{'a', 0xff, 0xff, 0xff, 0xff}, whole[5:]...),
		"a huge body":      append(append([]byte{}, whole[:5]...), append([]byte{0x7f, 0, 0, 0, 0, 0, 0, 0}, whole[13:]...)...),
		"a negative body":  append(append([]byte{}, whole[:5]...), append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0}, whole[13:]...)...),
		"cut in the head":  whole[:20],
		"cut in the body":  whole[:len(whole)-1],
		"cut at the start": whole[:3],
	} {
		if _, err := Read(bufio.NewReader(bytes.NewReader(b)), most); err == nil || errors.Is(err, io.EOF) && name != "cut at the start" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, head := range []string{``, `{`, `[]`, `{"function":"log"} {}`, `{"function":"log","more":1}`, `{"function":1}`, `{"handle":1e99}`} {
		if err := (Frame{Kind: KindAsk, Head: []byte(head)}).As(KindAsk, new(Ask)); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", head, err)
		}
	}
	if err := (Frame{Kind: KindAsk, Head: []byte(`{}`)}).As(KindDone, new(Done)); !errors.Is(err, ErrFrame) {
		t.Error(err)
	}
	if err := (Frame{Kind: KindLoaded, Head: []byte(`{}`)}).As(KindLoaded, nil); !errors.Is(err, ErrFrame) {
		t.Error(err)
	}
	for _, lengths := range [][]int{{3}, {1}, {-1, 3}, {1, 2}, {1 << 62, 1 << 62}} {
		if _, err := Split([]byte("ab"), lengths); !errors.Is(err, ErrFrame) {
			t.Errorf("%v: %v", lengths, err)
		}
	}
}

// FuzzRead: whatever comes is read or refused, takes no more room than it has, and what is read is written the same.
func FuzzRead(f *testing.F) {
	f.Add(frame(f, KindHello, Hello{Version: Version, Runtime: "wasmtime 44.0.0"}))
	f.Add(frame(f, KindAsk, Ask{Function: "kv_put", Handle: 1 << 62, Parts: []int{1, 2}}, []byte("abc")))
	f.Add(frame(f, KindDone, Done{Output: 2, Denied: []Handle{{Kind: "http", Name: "x"}}}, []byte("{}")))
	f.Add([]byte("a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x01\x00\x00{}"))
	f.Add([]byte(strings.Repeat("\xff", 20)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bufio.NewReader(bytes.NewReader(b))
		for {
			g, err := Read(r, most)
			if err != nil {
				return
			}
			if len(g.Head) > MaxHead || len(g.Body) > most || cap(g.Body) > len(b)+2*step {
				t.Fatalf("%d and %d bytes", len(g.Head), cap(g.Body))
			}
			var a Ask
			if g.As(KindAsk, &a) != nil {
				continue
			}
			parts, err := Split(g.Body, a.Parts)
			if err == nil && !bytes.Equal(bytes.Join(parts, nil), g.Body) {
				t.Fatal("parts are not the body")
			}
			again, err := Read(bufio.NewReader(bytes.NewReader(frame(t, KindAsk, a, g.Body))), most)
			var b Ask
			if err != nil || again.As(KindAsk, &b) != nil || a.Function != b.Function || !bytes.Equal(again.Body, g.Body) {
				t.Fatalf("%+v, then %+v, %v", a, b, err)
			}
		}
	})
}
