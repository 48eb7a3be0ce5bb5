//go:build unix

package hook

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// parkFrom is the first version that was seen to park a run.
const parkFrom = "2.1.325"

// maxTail is how much of a transcript's end is read.
const maxTail = 4 << 20

// Parks reports whether the program would take the word that the run parks, and not go on as if there were no hook:
// it does so in a run without a window, where the call stands alone in its message. That is read from what the program
// itself has written of the session; whatever is not there to be seen counts as a no.
func (s AgentSession) Parks(toolUse string) bool {
	if _, ours := s.project(); !ours || toolUse == "" {
		return false
	}
	f, err := os.OpenFile(s.Transcript, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() || !ownedByUs(fi) {
		return false
	} else if fi.Size() > maxTail {
		if _, err := f.Seek(-maxTail, io.SeekEnd); err != nil {
			return false
		}
	}
	return parks(io.LimitReader(f, maxTail), toolUse)
}

// spoken is a line of a transcript, as far as it matters.
type spoken struct {
	Type         string `json:"type"`
	Version      string `json:"version"`
	Entrypoint   string `json:"entrypoint"`
	PromptSource string `json:"promptSource"`
	Message      struct {
		ID      string          `json:"id"`
		Content json.RawMessage `json:"content"`
	} `json:"message"`
}

// uses are the tools that a message uses, by their ids.
func (l spoken) uses() (ids []string) {
	var parts []struct{ Type, ID string }
	if json.Unmarshal(l.Message.Content, &parts) != nil {
		return nil
	}
	for _, p := range parts {
		if p.Type == "tool_use" {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// parks looks for the message of the call, and for how the session was last spoken to.
func parks(r io.Reader, toolUse string) bool {
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, maxTail)
	bySDK, calls, message := false, map[string]int{}, ""
	for scan.Scan() {
		var l spoken
		if !bytes.Contains(scan.Bytes(), []byte(`"message"`)) || json.Unmarshal(scan.Bytes(), &l) != nil {
			continue
		}
		if l.PromptSource != "" {
			bySDK = l.PromptSource == "sdk"
		}
		if l.Type != "assistant" {
			continue
		}
		ids := l.uses()
		calls[l.Message.ID] += len(ids)
		if slices.Contains(ids, toolUse) {
			message = l.Message.ID
			if l.Entrypoint != "sdk-cli" || !since(l.Version, parkFrom) {
				return false
			}
		}
	}
	return scan.Err() == nil && message != "" && calls[message] == 1 && bySDK
}

// since reports whether a version is one, or a later one.
func since(version, first string) bool {
	a, b := strings.Split(version, "."), strings.Split(first, ".")
	for i := range b {
		if i >= len(a) {
			return false
		}
		x, err := strconv.Atoi(a[i])
		y, _ := strconv.Atoi(b[i])
		if err != nil || x < y {
			return false
		}
		if x > y {
			return true
		}
	}
	return true
}
