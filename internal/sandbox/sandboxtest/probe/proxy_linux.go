package main

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// viaProxy connects to host:port by way of a proxy, as clients do.
func viaProxy(how, to, proxy string) (net.Conn, error) {
	u, err := url.Parse(proxy)
	if err != nil || u.Host == "" {
		return nil, errors.New("there is no proxy")
	}
	c, err := net.DialTimeout("tcp", u.Host, hurry)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(3 * hurry))
	if how == "socks" {
		err = socks(c, to, u.User)
	} else {
		c, err = connect(c, to, u.User)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// connect is HTTP's CONNECT.
func connect(c net.Conn, to string, who *url.Userinfo) (net.Conn, error) {
	auth := ""
	if who != nil {
		secret, _ := who.Password()
		auth = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(who.Username()+":"+secret)) + "\r\n"
	}
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", to, to, auth); err != nil {
		return nil, err
	}
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 12 || line[9:12] != "200" {
		return nil, fmt.Errorf("%.60q: %w", line, unix.ECONNREFUSED)
	}
	for line != "\r\n" {
		if line, err = r.ReadString('\n'); err != nil {
			return nil, err
		}
	}
	return &buffered{c, r}, nil
}

// buffered gives back what was read ahead.
type buffered struct {
	net.Conn
	r io.Reader
}

func (b *buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

// socks is version 5 with a name and a password.
func socks(c net.Conn, to string, who *url.Userinfo) error {
	host, port, err := net.SplitHostPort(to)
	if err != nil {
		return err
	}
	no, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	if err := exchange5(c, []byte{5, 1, 2}, 2); err != nil {
		return err
	}
	if who == nil {
		return errors.New("the proxy has no password")
	}
	secret, _ := who.Password()
	name := who.Username()
	login := append([]byte{1, byte(len(name))}, name...)
	login = append(append(login, byte(len(secret))), secret...)
	if err := exchange5(c, login, 0); err != nil {
		return err
	}
	ask := append([]byte{5, 1, 0, 3, byte(len(host))}, host...)
	ask = append(ask, byte(no>>8), byte(no))
	if err := exchange5(c, ask, 0); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, 8)) // the rest of an answer with an address of version 4
	return err
}

// exchange5 sends and reads two bytes, of which the second must be as given.
func exchange5(c net.Conn, ask []byte, want byte) error {
	if _, err := c.Write(ask); err != nil {
		return err
	}
	b := make([]byte, 2)
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	if b[1] != want {
		return fmt.Errorf("the proxy answers %d: %w", b[1], unix.ECONNREFUSED)
	}
	return nil
}
