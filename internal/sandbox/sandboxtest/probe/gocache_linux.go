package main

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// goCache is a program for GOCACHEPROG: it answers from the cache a[0] and puts whatever was asked for, or is new,
// into a[1]. So a cache can be made that holds just what one build needs, without compiling the library again.
func goCache(a []string) int {
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(cacheAnswer{KnownCommands: []string{"get", "put", "close"}}); err != nil {
		return fail("%v", err)
	}
	for {
		var ask cacheAsk
		if err := in.Decode(&ask); errors.Is(err, io.EOF) {
			return 0
		} else if err != nil {
			return fail("%v", err)
		}
		if err := out.Encode(answerCache(in, ask, a[0], a[1])); err != nil {
			return fail("%v", err)
		}
		if ask.Command == "close" {
			return 0
		}
	}
}

// cacheAsk and cacheAnswer are the go command's own words.
type cacheAsk struct {
	ID                 int64
	Command            string
	ActionID, OutputID []byte
	BodySize           int64
}

type cacheAnswer struct {
	ID            int64
	Err           string     `json:",omitempty"`
	KnownCommands []string   `json:",omitempty"`
	Miss          bool       `json:",omitempty"`
	OutputID      []byte     `json:",omitempty"`
	Size          int64      `json:",omitempty"`
	Time          *time.Time `json:",omitempty"`
	DiskPath      string     `json:",omitempty"`
}

func answerCache(in *json.Decoder, ask cacheAsk, from, to string) cacheAnswer {
	ans := cacheAnswer{ID: ask.ID}
	var err error
	switch ask.Command {
	case "get":
		ans.Miss = true
		if body, output, size := cached(from, ask.ActionID); size >= 0 {
			if ans.DiskPath, err = keep(to, ask.ActionID, output, body); err == nil {
				now := time.Now()
				ans.Miss, ans.OutputID, ans.Size, ans.Time = false, output, size, &now
			}
		}
	case "put":
		var text string
		if ask.BodySize > 0 {
			err = in.Decode(&text)
		}
		var body []byte
		if err == nil {
			body, err = base64.StdEncoding.DecodeString(text)
		}
		if err == nil {
			ans.DiskPath, err = keep(to, ask.ActionID, ask.OutputID, body)
		}
	}
	if err != nil {
		ans.Err = err.Error()
	}
	return ans
}

// cached reads an entry of a cache: its action file has the id of the output. A
// size below 0 says that there is none.
func cached(dir string, action []byte) (body, output []byte, size int64) {
	id := hex.EncodeToString(action)
	text, err := os.ReadFile(dir + "/" + id[:2] + "/" + id + "-a")
	f := strings.Fields(string(text))
	if err != nil || len(f) != 5 || f[0] != "v1" || f[1] != id {
		return nil, nil, -1
	}
	if output, err = hex.DecodeString(f[2]); err != nil || len(output) == 0 {
		return nil, nil, -1
	}
	body, err = os.ReadFile(dir + "/" + f[2][:2] + "/" + f[2] + "-d")
	if err != nil || fmt.Sprint(len(body)) != f[3] {
		return nil, nil, -1
	}
	return body, output, int64(len(body))
}

// keep writes an entry as the go command itself would.
func keep(dir string, action, output, body []byte) (string, error) {
	a, o := hex.EncodeToString(action), hex.EncodeToString(output)
	path := dir + "/" + o[:2] + "/" + o + "-d"
	for _, sub := range []string{a[:2], o[:2]} {
		if err := os.MkdirAll(dir+"/"+sub, 0o755); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(path, body, 0o644); err != nil {
		return "", err
	}
	entry := fmt.Sprintf("v1 %s %s %20d %20d\n", a, o, len(body), time.Now().UnixNano())
	return path, os.WriteFile(dir+"/"+a[:2]+"/"+a+"-a", []byte(entry), 0o644)
}
