package tools

import (
	"bytes"
	"strings"
	"testing"

	"palyra"
	v1 "palyra/api/gen/palyra/v1"
)

func TestFeed(t *testing.T) {
	f, err := feed(&v1.SendInputRequest{Data: []byte("x"), End: true, Signal: "SIGUSR1", Rows: 24, Cols: 80})
	if err != nil || string(f.Data) != "x" || !f.End || f.Signal != "SIGUSR1" || f.Rows != 24 || f.Cols != 80 {
		t.Errorf("%+v %v", f, err)
	}
	if _, err := feed(&v1.SendInputRequest{Data: bytes.Repeat([]byte("x"), maxFeed)}); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		req  *v1.SendInputRequest
		want palyra.Code
	}{
		"nothing":           {&v1.SendInputRequest{CallId: "C"}, palyra.Invalid},
		"too much":          {&v1.SendInputRequest{Data: make([]byte, maxFeed+1)}, palyra.Exhausted},
		"a number":          {&v1.SendInputRequest{Signal: "9"}, palyra.Invalid},
		"small letters":     {&v1.SendInputRequest{Signal: "SIGint"}, palyra.Invalid},
		"only a prefix":     {&v1.SendInputRequest{Signal: "SIG"}, palyra.Invalid},
		"a long name":       {&v1.SendInputRequest{Signal: "SIG" + strings.Repeat("A", 99)}, palyra.Invalid},
		"rows alone":        {&v1.SendInputRequest{Rows: 1}, palyra.Invalid},
		"cols alone":        {&v1.SendInputRequest{Cols: 1, End: true}, palyra.Invalid},
		"negative":          {&v1.SendInputRequest{Rows: -1, Cols: -1}, palyra.Invalid},
		"a huge terminal":   {&v1.SendInputRequest{Rows: 1 << 16, Cols: 1}, palyra.Invalid},
		"an endless screen": {&v1.SendInputRequest{Rows: 1, Cols: 1 << 62}, palyra.Invalid},
	} {
		if _, err := feed(c.req); palyra.CodeOf(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
