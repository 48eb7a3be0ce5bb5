package rpc_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"palyra/internal/rpc"
)

// A request that is refused before it was read gets its answer, however much of it
// is still on the way: a reset would read as a daemon that died.
func TestRefusedBeforeItWasRead(t *testing.T) {
	b := newBench(t, rpc.New)
	c := b.unix("operator", false)
	for i := range 50 {
		body := io.MultiReader(strings.NewReader("{"), bytes.NewReader(bytes.Repeat([]byte(" "), 512<<10)), strings.NewReader("}"))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://palyra/palyra.v1.StatusService/GetStatus", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer plyr_nobody")
		req.Close = true
		res, err := c.Do(req)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || !strings.Contains(string(text), "bad_credential") && !strings.Contains(string(text), "rate_limited") && !strings.Contains(string(text), "token") {
			t.Fatalf("request %d: %v %s", i, err, text)
		}
	}
}
