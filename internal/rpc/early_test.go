package rpc_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"palyra/internal/rpc"
)

// A request that is refused by its headers is answered when the rest of it is here:
// whoever is still sending when the answer comes and the connection goes may never
// read it, and take the daemon for dead. Who does not send on is not waited for.
func TestRefusedBeforeItWasRead(t *testing.T) {
	b := newBench(t, rpc.New)
	for _, send := range []bool{true, false} {
		c, err := net.Dial("unix", b.socket("agent"))
		b.must(err)
		const body = `{"tool":"palyra.echo"}`
		_, err = fmt.Fprintf(c, "POST /palyra.v1.StatusService/GetStatus HTTP/1.1\r\nHost: palyra\r\nConnection: close\r\n"+
			"Authorization: Bearer plyr_nobody\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body))
		b.must(err)
		b.must(c.SetReadDeadline(time.Now().Add(200 * time.Millisecond)))
		if n, err := c.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("answered while the request is on its way: %v", err)
		}
		if send {
			_, err = io.WriteString(c, body)
			b.must(err)
		}
		b.must(c.SetReadDeadline(time.Now().Add(late)))
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		b.must(err)
		text, err := io.ReadAll(res.Body)
		if err != nil || !strings.Contains(string(text), "token") {
			t.Errorf("%v %s", err, text)
		}
		_ = c.Close()
	}
}
