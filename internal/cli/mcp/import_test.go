//go:build linux

package mcp

import (
	"strings"
	"testing"
)

func FuzzImport(f *testing.F) {
	f.Add([]byte(`{"mcpServers":{"a":{"command":"x"}}}`))
	f.Add([]byte(`{"servers":{"Ä!":{"url":"y","headers":{}}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := parseServers(raw)
		if err != nil {
			return
		}
		for _, s := range list {
			if (s.Outcome == "found") == (s.Why != "") || strings.Trim(s.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || len(s.Name) > 32 {
				t.Errorf("%+v", s)
			}
		}
	})
}
