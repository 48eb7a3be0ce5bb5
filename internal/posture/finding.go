package posture

import (
	"bytes"
	"encoding/json"
	"strings"

	"palyra"
)

// finding is the one line that the program prints.
type finding struct {
	Nonce string `json:"nonce"`
	Act   string `json:"act"`
	Done  bool   `json:"done"`
	Error string `json:"error"`
	Text  string `json:"text"`
}

// maxFinding bounds the line.
const maxFinding = 8 << 10

// parseFinding returns the program's finding. Any output but exactly one line of the act with this nonce
// counts as none: the program is ours, and nobody else should print.
func parseFinding(out []byte, nonce, act string) (finding, bool) {
	line, ok := bytes.CutSuffix(out, []byte("\n"))
	if !ok || len(line) > maxFinding || bytes.ContainsRune(line, '\n') {
		return finding{}, false
	}
	var f finding
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if dec.Decode(&f) != nil || dec.More() || nonce == "" || f.Nonce != nonce || f.Act != act || f.Done == (f.Error != "") {
		return finding{}, false
	}
	f.Error, f.Text = palyra.Clip(f.Error, 80), palyra.Clip(strings.ToValidUTF8(f.Text, "?"), 200)
	return f, true
}
