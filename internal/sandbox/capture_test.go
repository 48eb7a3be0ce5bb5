package sandbox

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// fill writes data in pieces of the given sizes, over and over, and returns what
// was said to belong to the head.
func fill(c *capture, data []byte, sizes ...int) (head []byte) {
	for i := 0; len(data) > 0; i++ {
		n := min(max(1, sizes[i%len(sizes)]), len(data))
		head = append(head, c.write(data[:n])...)
		data = data[n:]
	}
	return head
}

func TestCapture(t *testing.T) {
	for _, c := range []struct {
		name      string
		outputCap int64
		data      string
		want      string
		cut       bool
	}{
		{"nothing", 40, "", "", false},
		{"head only", 40, "0123456789", "0123456789", false},
		{"head and tail meet", 40, "0123456789abcdefghij", "0123456789abcdefghij", false},
		{"one byte over", 40, "0123456789-abcdefghij", "0123456789\n… 1 bytes left out …\nabcdefghij", true},
		{"far over", 40, "0123456789" + strings.Repeat("-", 1000) + "abcdefghij", "0123456789\n… 1000 bytes left out …\nabcdefghij", true},
		{"no room at all", 3, "0123456789", "\n… 10 bytes left out …\n", true},
		{"a character cut at the head", 40, "012345678€" + strings.Repeat("-", 20), "012345678\n… 13 bytes left out …\n----------", true},
		{"a character cut at the tail", 40, strings.Repeat("-", 20) + "€bcdefghi", "----------\n… 13 bytes left out …\nbcdefghi", true},
		{"whole characters", 40, "0123456€" + strings.Repeat("-", 9) + "€defghij", "0123456€\n… 9 bytes left out …\n€defghij", true},
		{"bytes stay bytes", 40, "\xff\xfe345678\x80\x80--\x80\x80\x80\x80ef\xff\x80ij", "\xff\xfe345678\x80\x80\n… 2 bytes left out …\n\x80\x80\x80\x80ef\xff\x80ij", true},
	} {
		for _, sizes := range [][]int{{1}, {3}, {7, 1}, {1000}} {
			cp := newCapture(c.outputCap, 2)
			fill(cp, []byte(c.data), sizes...)
			got, cut := cp.bytes()
			if string(got) != c.want || cut != c.cut || cp.total != int64(len(c.data)) {
				t.Errorf("%s in pieces of %v: %q, %v, %d in all; want %q", c.name, sizes, got, cut, cp.total, c.want)
			}
		}
	}
}

func TestCaptureSharesTheCap(t *testing.T) {
	for _, c := range []struct {
		outputCap int64
		streams   int
		most      int
	}{{400, 2, 100}, {400, 1, 200}, {0, 2, defaultOutput / 4}, {-1, 1, defaultOutput / 2}, {1, 2, 0}} {
		if got := newCapture(c.outputCap, c.streams).most; got != c.most {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// What is kept and what is counted gives back what was written, but for the
// middle, and text stays text.
func FuzzCapture(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), int64(8), byte(3))
	f.Add([]byte(strings.Repeat("€", 100)), int64(100), byte(7))
	f.Add([]byte{0xff, 0x80, 0x80, 0x80, 0x80, 0xe2, 0x82}, int64(4), byte(1))
	f.Add(bytes.Repeat([]byte("x"), 1000), int64(1), byte(255))
	f.Fuzz(func(t *testing.T, data []byte, outputCap int64, size byte) {
		outputCap = max(1, outputCap%4096)
		c := newCapture(outputCap, 2)
		shown := fill(c, data, int(size), 1, 64)
		got, cut := c.bytes()
		if !bytes.HasPrefix(data, shown) || len(shown) != min(len(data), c.most) {
			t.Fatalf("shown as head: %q", shown)
		}
		if c.total != int64(len(data)) {
			t.Fatalf("%d counted of %d", c.total, len(data))
		}
		if fits := len(data) <= 2*c.most; cut == fits {
			t.Fatalf("cut is %v for %d bytes of %d", cut, len(data), 2*c.most)
		}
		if !cut {
			if !bytes.Equal(got, data) {
				t.Fatalf("%q became %q", data, got)
			}
			return
		}
		if int64(len(got)) > outputCap/2+int64(len(marker(c.total))) {
			t.Fatalf("%d bytes delivered of a cap of %d", len(got), outputCap)
		}
		if !reconstructs(data, got, c.most) {
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
	const outputCap = 256 << 10
	chunk := make([]byte, readSize)
	c := newCapture(outputCap, 2)
	for range 64 {
		c.write(chunk)
	}
	if n := testing.AllocsPerRun(100, func() { c.write(chunk) }); n > 0 {
		t.Errorf("%v allocations for a full capture", n)
	}
	if have := cap(c.head) + cap(c.ring); have > outputCap {
		t.Errorf("%d bytes are held of a cap of %d", have, outputCap)
	}
}

// BenchmarkCaptureGiB shows what a gigabyte costs, as a ratio to copying it.
func BenchmarkCaptureGiB(b *testing.B) {
	const gib, outputCap = 1 << 30, 1 << 20
	chunk, to := bytes.Repeat([]byte("0123456789abcde\n"), readSize/16), make([]byte, readSize)
	b.Run("capture", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(gib)
		for b.Loop() {
			c := newCapture(outputCap, 2)
			for range gib / readSize {
				c.write(chunk)
			}
			if _, cut := c.bytes(); !cut || c.total != gib {
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
