package egress

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"palyra"
)

// parentProxy is the operator's proxy for all connections.
type parentProxy struct {
	addr     string // host:port
	socks    bool
	user     string
	password string
}

const upstreamHead = 8 << 10 // bytes of its answer

func parseUpstream(s string) (*parentProxy, error) {
	if s == "" {
		return nil, nil
	}
	bad := palyra.Errorf(palyra.Invalid, palyra.ReasonConfig, "egress: the upstream proxy cannot be read").
		WithRemedy("write it as http://host:port or socks5://host:port, with user:password@ before the host if it needs them")
	u, err := url.Parse(s)
	if err != nil { // the URL may hold a password, so the error is not shown
		return nil, bad
	}
	known := u.Scheme == "http" || u.Scheme == "socks5" || u.Scheme == "socks5h"
	if _, ok := parsePort(u.Port()); !known || !ok || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, bad
	}
	up := &parentProxy{addr: u.Host, socks: u.Scheme != "http", user: u.User.Username()}
	up.password, _ = u.User.Password()
	if len(up.user) > 255 || len(up.password) > 255 || strings.ContainsAny(up.user, ":\r\n") {
		return nil, bad
	}
	return up, nil
}

// dialUpstream connects to a target through the upstream proxy. The proxy looks up names; one that
// this machine can look up as well must not be private here.
func (g *Guard) dialUpstream(ctx context.Context, p permit) (*net.TCPConn, string, error) {
	if err := g.preview(ctx, p); err != nil {
		return nil, "", err
	}
	conn, err := g.dialer.DialContext(ctx, "tcp", g.upstream.addr)
	if err != nil {
		return nil, "", palyra.Errorf(palyra.Unavailable, palyra.ReasonNotFound, "the upstream proxy cannot be reached").
			WithRemedy("the operator can check egress.upstream in the configuration").WithCause(err)
	}
	c, ok := conn.(*net.TCPConn)
	if !ok {
		_ = conn.Close()
		return nil, "", fmt.Errorf("egress: upstream: not a TCP connection")
	}
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	hello := g.upstream.connect
	if g.upstream.socks {
		hello = g.upstream.greet
	}
	if err := hello(c, p.target); err != nil {
		_ = c.Close()
		return nil, "", unreachable(p.target, fmt.Errorf("egress: upstream: %w", err))
	}
	if !stop() {
		_ = c.Close()
		return nil, "", unreachable(p.target, ctx.Err())
	}
	return c, addrOf(c.RemoteAddr()).String(), nil
}

// preview checks an address as far as it is known here. A name that does not exist for this machine
// is left to the proxy, which is usual behind one; any other failed lookup refuses the target,
// because whoever answers it could make it fail.
func (g *Guard) preview(ctx context.Context, p permit) error {
	_, err := g.addresses(ctx, p.target, p.exact)
	e := palyra.AsError(err)
	switch {
	case err == nil, e.Code == palyra.NotFound:
		return nil
	case e.Code == palyra.Unavailable:
		return e.WithRemedy("the operator can set egress.resolver to a name server that answers, if only that there is no such host")
	}
	return err
}

// connect asks an HTTP proxy for a tunnel.
func (u *parentProxy) connect(c net.Conn, t target) error {
	head := "CONNECT " + t.String() + " HTTP/1.1\r\nHost: " + t.String() + "\r\n"
	if u.user != "" {
		head += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.user+":"+u.password)) + "\r\n"
	}
	if _, err := io.WriteString(c, head+"\r\n"); err != nil {
		return err
	}
	answer, err := readHead(c)
	if err != nil {
		return err
	}
	version, rest, _ := strings.Cut(answer, " ")
	if !strings.HasPrefix(version, "HTTP/1.") || !strings.HasPrefix(rest, "2") {
		return fmt.Errorf("the proxy answered %q", palyra.Clip(strings.TrimSpace(rest), 40))
	}
	return nil
}

// readHead reads up to an empty line and not a byte more, because the following bytes are the
// tunnel's. It returns the first line.
func readHead(r io.Reader) (string, error) {
	var all []byte
	for one := make([]byte, 1); len(all) < upstreamHead; {
		if _, err := io.ReadFull(r, one); err != nil {
			return "", err
		}
		all = append(all, one[0])
		if bytes.HasSuffix(all, []byte("\n\r\n")) || bytes.HasSuffix(all, []byte("\n\n")) {
			line, _, _ := strings.Cut(string(all), "\n")
			return line, nil
		}
	}
	return "", fmt.Errorf("the proxy's answer is too long")
}

// greet asks a SOCKS5 proxy for a connection, by name.
func (u *parentProxy) greet(c net.Conn, t target) error {
	method := byte(socksNone)
	if u.user != "" {
		method = socksPassword
	}
	if err := exchange(c, []byte{socksVersion, 1, method}, []byte{socksVersion, method}); err != nil {
		return err
	}
	if method == socksPassword {
		ask := append([]byte{socksAuth, byte(len(u.user))}, u.user...)
		ask = append(append(ask, byte(len(u.password))), u.password...)
		if err := exchange(c, ask, []byte{socksAuth, 0}); err != nil {
			return err
		}
	}
	if _, err := c.Write(socksRequest(t)); err != nil {
		return err
	}
	return socksAnswer(c)
}

// exchange sends ask and requires exactly the answer want.
func exchange(c net.Conn, ask, want []byte) error {
	if _, err := c.Write(ask); err != nil {
		return err
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil {
		return err
	}
	if string(got) != string(want) {
		return fmt.Errorf("the proxy answered % x", got)
	}
	return nil
}
