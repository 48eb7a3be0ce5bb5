package main

import (
	"encoding/json"
	"fmt"
	"unsafe"
)

// What Palyra offers to modules: docs/skills-abi.md. Bytes go as address and size, and a result is fetched when the call that
// made it has returned.

//go:wasmimport palyra handle
func hostHandle(kind unsafe.Pointer, kindSize uint32, name unsafe.Pointer, nameSize uint32) int64

//go:wasmimport palyra result
func hostResult(at unsafe.Pointer, size, from uint32) int32

//go:wasmimport palyra http_request
func hostRequest(h int64, request unsafe.Pointer, size uint32) int32

//go:wasmimport palyra kv_get
func hostGet(h int64, key unsafe.Pointer, size uint32) int32

//go:wasmimport palyra kv_put
func hostPut(h int64, key unsafe.Pointer, size uint32, value unsafe.Pointer, valueSize uint32) int32

// handle stands for something that this call was granted.
type handle int64

func at[T ~string | ~[]byte](b T) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.StringData(string(b))), uint32(len(b))
}

// permit is the handle of a permit; what was not granted has none.
func permit(kind, name string) (handle, error) {
	k, kindSize := at(kind)
	n, nameSize := at(name)
	h := hostHandle(k, kindSize, n, nameSize)
	if h == 0 {
		return 0, fmt.Errorf("%s %q was not granted to this skill", kind, name)
	}
	return handle(h), nil
}

// missing is the code of a key under which nothing is kept.
const missing = -2

// result is what a host function returned, by its code.
func result(code int32) ([]byte, error) {
	if code >= 0 {
		return fetch(code), nil
	}
	var refusal struct {
		Code   string `json:"reason_code"`
		Reason string `json:"reason"`
		Remedy string `json:"remedy"`
	}
	if json.Unmarshal(fetch(64<<10), &refusal) != nil || refusal.Code == "" {
		return nil, fmt.Errorf("the host refused it (%d)", code)
	}
	return nil, fmt.Errorf("%s (%s); %s", refusal.Reason, refusal.Code, refusal.Remedy)
}

// fetch copies at most so many bytes of the last result.
func fetch(most int32) []byte {
	if most == 0 {
		return nil
	}
	b := make([]byte, most)
	return b[:hostResult(unsafe.Pointer(&b[0]), uint32(most), 0)]
}

// response is the answer to a request.
type response struct {
	Status    int               `json:"status"`
	Headers   map[string]string `json:"headers"`
	Body      []byte            `json:"body"`
	Truncated bool              `json:"truncated"`
}

// get makes a request to a host that was granted.
func get(host, url string) (r response, err error) {
	h, err := permit("http", host)
	if err != nil {
		return r, err
	}
	request, err := json.Marshal(map[string]string{"method": "GET", "url": url})
	if err != nil {
		return r, err
	}
	p, size := at(request)
	raw, err := result(hostRequest(int64(h), p, size))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(raw, &r)
}

// get returns what is kept under a key.
func (h handle) get(key string) (value []byte, known bool, err error) {
	k, size := at(key)
	code := hostGet(int64(h), k, size)
	if code == missing {
		return nil, false, nil
	}
	value, err = result(code)
	return value, err == nil, err
}

// put keeps a value under a key.
func (h handle) put(key string, value []byte) error {
	k, size := at(key)
	v, valueSize := at(value)
	_, err := result(hostPut(int64(h), k, size, v, valueSize))
	return err
}
