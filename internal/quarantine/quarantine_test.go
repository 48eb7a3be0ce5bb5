package quarantine

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra/internal/subpath"
)

func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"item":"000001","path":"a/.git","mode":16877}` + "\n"))
	f.Add([]byte(`{"item":"2","path_bytes":"/w==","mode":1}`))
	f.Add([]byte(`{"item":"../x","path":"/etc"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		items, err := ReadIndex(bytes.NewReader(b))
		if err != nil {
			return
		}
		var out bytes.Buffer
		for _, i := range items {
			if !Clean(i.Path) || !subpath.PlainID(i.Item) {
				t.Errorf("taken: %+v", i)
			}
			line, err := i.Line()
			if err != nil {
				t.Fatal(err)
			}
			out.Write(line)
		}
		back, err := ReadIndex(&out)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(items, back); d != "" {
			t.Error(d)
		}
	})
}

func TestBadIndex(t *testing.T) {
	for _, bad := range []string{
		`{"item":"../x","path":"a"}`, `{"item":"1","path":"../a"}`, `{"item":"1","path":"/a"}`, `{"item":"","path":"a"}`, `{"item":"1"}`,
		`{"item":"1","path":"a","x":1}`, `[`,
		`{"item":"1","path":"` + string(bytes.Repeat([]byte("a"), maxLine)) + `"}`,
	} {
		if _, err := ReadIndex(bytes.NewReader([]byte(bad))); err == nil {
			t.Errorf("taken: %.60s", bad)
		}
	}
}
