//go:build wasip1

// Command guest does what its input says, one step after the other, and says what came of each: a module in Go, as people
// write them, for tests.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
	"unsafe"
)

type step struct {
	Do     string `json:"do"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Handle int64  `json:"handle"` // instead of the one for kind and name
	A      string `json:"a"`
	B      string `json:"b"`
	N      int32  `json:"n"`
}

type answer struct {
	Code   int64  `json:"code"`
	Handle int64  `json:"handle"`
	Text   string `json:"text"`
}

//go:wasmimport palyra handle
func handle(kind unsafe.Pointer, kindLen uint32, name unsafe.Pointer, nameLen uint32) int64

//go:wasmimport palyra result
func result(at unsafe.Pointer, n, from uint32) int32

//go:wasmimport palyra http_request
func httpRequest(h int64, at unsafe.Pointer, n uint32) int32

//go:wasmimport palyra secret_use
func secretUse(h int64) int32

//go:wasmimport palyra kv_get
func kvGet(h int64, at unsafe.Pointer, n uint32) int32

//go:wasmimport palyra kv_put
func kvPut(h int64, at unsafe.Pointer, n uint32, value unsafe.Pointer, m uint32) int32

//go:wasmimport palyra kv_delete
func kvDelete(h int64, at unsafe.Pointer, n uint32) int32

//go:wasmimport palyra kv_list
func kvList(h int64, at unsafe.Pointer, n uint32, after unsafe.Pointer, m uint32, most int32) int32

//go:wasmimport palyra tool_call
func toolCall(h int64, at unsafe.Pointer, n uint32) int32

//go:wasmimport palyra clock
func clock(h int64) int64

//go:wasmimport palyra random
func random(h int64, at unsafe.Pointer, n uint32) int32

//go:wasmimport palyra log
func logLine(h int64, at unsafe.Pointer, n uint32, level int32) int32

func at(s string) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.StringData(s)), uint32(len(s))
}

func handleOf(kind, name string) int64 {
	k, kn := at(kind)
	n, nn := at(name)
	return handle(k, kn, n, nn)
}

// last is the result of the last host call.
func last() string {
	b := make([]byte, 1<<20)
	return string(b[:result(unsafe.Pointer(&b[0]), uint32(len(b)), 0)])
}

func (s step) run() (a answer) {
	h := s.Handle
	if h == 0 && s.Kind != "" {
		h = handleOf(s.Kind, s.Name)
	}
	a.Handle = h
	p, n := at(s.A)
	q, m := at(s.B)
	switch s.Do {
	case "handle":
		return a
	case "http_request":
		a.Code = int64(httpRequest(h, p, n))
	case "secret_use":
		a.Code = int64(secretUse(h))
	case "kv_get":
		a.Code = int64(kvGet(h, p, n))
	case "kv_put":
		a.Code = int64(kvPut(h, p, n, q, m))
	case "kv_delete":
		a.Code = int64(kvDelete(h, p, n))
	case "kv_list":
		a.Code = int64(kvList(h, p, n, q, m, s.N))
	case "tool_call":
		a.Code = int64(toolCall(h, p, n))
	case "log":
		a.Code = int64(logLine(h, p, n, s.N))
	case "clock":
		a.Code = clock(h)
		return a
	case "random":
		b := make([]byte, s.N)
		a.Code = int64(random(h, unsafe.Pointer(&b[0]), uint32(len(b))))
		a.Text = fmt.Sprintf("%x", b)
		return a
	default:
		a.Text = s.ambient()
		return a
	}
	a.Text = last()
	return a
}

// ambient is what an ordinary program finds around it.
func (s step) ambient() string {
	text := func(v any, err error) string {
		if err != nil {
			return "error: " + err.Error()
		}
		return fmt.Sprint(v)
	}
	switch s.Do {
	case "open":
		b, err := os.ReadFile(s.A)
		return text(len(b), err)
	case "write":
		return text("", os.WriteFile(s.A, []byte("x"), 0o600))
	case "list":
		e, err := os.ReadDir(s.A)
		return text(len(e), err)
	case "env":
		return fmt.Sprint(os.Environ())
	case "args":
		return fmt.Sprint(os.Args)
	case "now":
		return time.Now().UTC().Format(time.RFC3339Nano)
	case "sleep":
		began := time.Now()
		<-time.After(time.Duration(s.N) * time.Millisecond)
		return fmt.Sprint(time.Since(began) >= time.Duration(s.N)*time.Millisecond)
	case "stderr":
		fmt.Fprintln(os.Stderr, s.A)
	case "find":
		return fmt.Sprint(s.find())
	case "storm":
		for i := range s.N {
			b := step{Do: "tool_call", Kind: "tool", Name: s.Name, A: s.A}.run()
			if b.Code < 0 {
				return fmt.Sprint(i, " ", b.Text)
			}
			<-time.After(time.Millisecond)
		}
	case "exit":
		os.Exit(int(s.N))
	case "panic":
		panic(s.A)
	}
	return ""
}

// find counts where A and B stand behind each other in the memory of the module.
func (s step) find() (n int) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	const first = 4096
	all := unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), first)), int(m.Sys)-first)
	a, b := []byte(s.A), []byte(s.B)
	for at := range len(all) - len(a) - len(b) {
		if bytes.Equal(all[at:at+len(a)], a) && bytes.Equal(all[at+len(a):at+len(a)+len(b)], b) {
			n++
		}
	}
	return n
}

func main() {
	var steps []step
	b, err := io.ReadAll(os.Stdin)
	if err == nil && b[0] == '{' {
		err = json.Unmarshal(b, &struct{ Steps *[]step }{&steps})
	} else if err == nil {
		err = json.Unmarshal(b, &steps)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	out := []answer{}
	for _, s := range steps {
		out = append(out, s.run())
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		os.Exit(3)
	}
}
