package sandbox

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"palyra"
)

// fill writes data in pieces of the given sizes, over and over.
func fill(c *capture, data []byte, sizes ...int) {
	for i := 0; len(data) > 0; i++ {
		n := min(max(1, sizes[i%len(sizes)]), len(data))
		c.write(data[:n])
		data = data[n:]
	}
}

func TestCapture(t *testing.T) {
	for _, c := range []struct {
		name string
		most int64
		data string
		want string
		cut  bool
	}{
		{"nothing", 20, "", "", false},
		{"head only", 20, "0123456789", "0123456789", false},
		{"as many as there may be", 20, "0123456789abcdefghij", "0123456789abcdefghij", false},
		{"an odd number of them", 3, "012", "012", false},
		{"one byte over", 20, "0123456789-abcdefghij", "0123456789\n… 1 bytes left out …\nabcdefghij", true},
		{"far over", 20, "0123456789" + strings.Repeat("-", 1000) + "abcdefghij", "0123456789\n… 1000 bytes left out …\nabcdefghij", true},
		{"no room at all", 1, "0123456789", "\n… 10 bytes left out …\n", true},
		{"a character cut at the head", 20, "012345678€" + strings.Repeat("-", 20), "012345678\n… 13 bytes left out …\n----------", true},
		{"a character cut at the tail", 20, strings.Repeat("-", 20) + "€bcdefghi", "----------\n… 13 bytes left out …\nbcdefghi", true},
		{"whole characters", 20, "0123456€" + strings.Repeat("-", 9) + "€defghij", "0123456€\n… 9 bytes left out …\n€defghij", true},
		{
			"bytes stay bytes", 20, "\xff\xfe345678\x80\x80--\x80\x80\x80\x80ef\xff\x80ij",
			"\xff\xfe345678\x80\x80\n… 2 bytes left out …\n\x80\x80\x80\x80ef\xff\x80ij", true,
		},
	} {
		for _, sizes := range [][]int{{1}, {3}, {7, 1}, {1000}} {
			cp := newCapture(c.most)
			fill(cp, []byte(c.data), sizes...)
			share, _ := shares(c.most, cp.total, 0)
			got, cut := cp.bytes(share)
			if string(got) != c.want || cut != c.cut || cp.total != int64(len(c.data)) || cp.digest() != palyra.SumBytes([]byte(c.data)) {
				t.Errorf("%s in pieces of %v: %q, %v, %d in all; want %q", c.name, sizes, got, cut, cp.total, c.want)
			}
		}
	}
}

func TestStreamsShareTheCap(t *testing.T) {
	for _, c := range []struct{ most, out, err, forOut, forErr int64 }{
		{400, 400, 0, 400, 0},
		{400, 399, 1, 399, 1},
		{400, 400, 1, 399, 1},
		{400, 1000, 50, 350, 50},
		{400, 50, 1000, 50, 350},
		{400, 1000, 1000, 200, 200},
		{401, 200, 201, 200, 201},
	} {
		forOut, forErr := shares(c.most, c.out, c.err)
		if forOut != c.forOut || forErr != c.forErr || forOut+forErr > c.most {
			t.Errorf("%+v: %d and %d", c, forOut, forErr)
		}
	}
	if outputCap(palyra.Limits{}) != defaultOutput || outputCap(palyra.Limits{OutputBytes: 7}) != 7 {
		t.Error("the cap of a run")
	}
}

// What is kept and what is counted gives back what was written, but for the
// middle; the digest is of all of it, and text stays text.
func FuzzCapture(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), int64(8), int64(0), byte(3))
	f.Add([]byte(strings.Repeat("€", 100)), int64(100), int64(70), byte(7))
	f.Add([]byte{0xff, 0x80, 0x80, 0x80, 0x80, 0xe2, 0x82}, int64(4), int64(5000), byte(1))
	f.Add(bytes.Repeat([]byte("x"), 1000), int64(1), int64(3), byte(255))
	f.Fuzz(func(t *testing.T, data []byte, most, other int64, size byte) {
		most, other = max(1, most%4096), max(0, other)
		c := newCapture(most)
		fill(c, data, int(size), 1, 64)
		share, _ := shares(most, c.total, other)
		got, cut := c.bytes(share)
		if c.total != int64(len(data)) || c.digest() != palyra.SumBytes(data) {
			t.Fatalf("%d counted of %d", c.total, len(data))
		}
		if fits := int64(len(data)) <= share; cut == fits {
			t.Fatalf("cut is %v for %d bytes of %d", cut, len(data), share)
		}
		if !cut {
			if !bytes.Equal(got, data) {
				t.Fatalf("%q became %q", data, got)
			}
			return
		}
		if int64(len(got)) > share+int64(len(marker(c.total))) {
			t.Fatalf("%d bytes delivered of %d", len(got), share)
		}
		if !reconstructs(data, got, int(share/2)) {
			t.Fatalf("%q became %q", data, got)
		}
		if utf8.Valid(data) && !utf8.Valid(got) {
			t.Fatalf("%q became no text: %q", data, got)
		}
	})
}

// reconstructs reports whether got is a head of data, the marker with the exact
// number of the bytes between, and a tail of data; each at most three bytes short
// of what there was room for.
func reconstructs(data, got []byte, most int) bool {
	for h := max(0, most-3); h <= most; h++ {
		for l := max(0, most-3); l <= most; l++ {
			whole := append(bytes.Clone(data[:h]), marker(int64(len(data)-h-l))...)
			if bytes.Equal(append(whole, data[len(data)-l:]...), got) {
				return true
			}
		}
	}
	return false
}

func TestCaptureMemoryIsBounded(t *testing.T) {
	const most = 256 << 10
	chunk := make([]byte, readSize)
	c := newCapture(most)
	for range 64 {
		c.write(chunk)
	}
	if n := testing.AllocsPerRun(100, func() { c.write(chunk) }); n > 0 {
		t.Errorf("%v allocations for a full capture", n)
	}
	if have := cap(c.head) + cap(c.ring); have > most {
		t.Errorf("%d bytes are held of a cap of %d", have, most)
	}
}

// BenchmarkCaptureGiB shows what a gigabyte costs, as a ratio to copying it.
func BenchmarkCaptureGiB(b *testing.B) {
	const gib, most = 1 << 30, 1 << 20
	chunk, to := bytes.Repeat([]byte("0123456789abcde\n"), readSize/16), make([]byte, readSize)
	b.Run("capture", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(gib)
		for b.Loop() {
			c := newCapture(most)
			for range gib / readSize {
				c.write(chunk)
			}
			if _, cut := c.bytes(most); !cut || c.total != gib {
				b.Fatal(c.total)
			}
		}
	})
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(gib)
		for b.Loop() {
			for range gib / readSize {
				copy(to, chunk)
			}
		}
	})
}
