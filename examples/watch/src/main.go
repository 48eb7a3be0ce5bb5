// Command watch says whether a page is another one than when it was last looked at: a skill that makes a request and keeps
// something.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
)

// look is what is kept of a page, under the digest of its URL.
type look struct {
	Status int    `json:"status"`
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
}

type answer struct {
	look
	URL      string `json:"url"`
	First    bool   `json:"first"`   // nobody looked before
	Changed  bool   `json:"changed"` // it is another one than at the last look
	Previous *look  `json:"previous,omitempty"`
}

func main() {
	var in struct {
		URL string `json:"url"`
	}
	err := json.NewDecoder(os.Stdin).Decode(&in)
	var out answer
	if err == nil {
		out, err = watch(in.URL)
	}
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "watch:", err) // the log of the call
		os.Exit(1)
	}
}

func watch(page string) (a answer, err error) {
	u, err := url.Parse(page)
	if err != nil {
		return a, fmt.Errorf("this is no URL")
	}
	answered, err := get(u.Host, page)
	if err != nil {
		return a, err
	}
	seen, err := permit("storage", "seen/")
	if err != nil {
		return a, err
	}
	sum := sha256.Sum256(answered.Body)
	a.URL, a.look = page, look{Status: answered.Status, SHA256: hex.EncodeToString(sum[:]), Bytes: len(answered.Body)}
	key := sha256.Sum256([]byte(page))
	name := hex.EncodeToString(key[:])
	before, known, err := seen.get(name)
	if err != nil {
		return a, err
	}
	if a.First = !known; known {
		a.Previous = new(look)
		if err := json.Unmarshal(before, a.Previous); err != nil {
			return a, err
		}
		a.Changed = *a.Previous != a.look
	}
	kept, err := json.Marshal(a.look)
	if err != nil {
		return a, err
	}
	return a, seen.put(name, kept)
}
