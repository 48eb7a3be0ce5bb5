package probe

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// patience is how long a probe waits for a peer, in seconds.
const patience = 3

// connectTo connects to a listener that the doctor made: "tcp" with address and port, or "unix"
// with a path, where @ stands for an abstract name. It returns the first bytes of the other side.
func connectTo(a []string) (string, error) {
	if a[0] == "unix" {
		return greet(unix.AF_UNIX, &unix.SockaddrUnix{Name: a[1]})
	}
	to, err := netip.ParseAddrPort(a[1])
	if err != nil {
		return "", err
	}
	return greet(sockaddr(to))
}

func sockaddr(to netip.AddrPort) (int, unix.Sockaddr) {
	if to.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
}

// greet connects and returns the first bytes of the other side.
func greet(family int, to unix.Sockaddr) (string, error) {
	fd, err := dialOut(family, to)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	text, _ := hear(fd) // only the connection counts
	return text, nil
}

func dialOut(family int, to unix.Sockaddr) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for _, opt := range []int{unix.SO_SNDTIMEO, unix.SO_RCVTIMEO} {
		_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, opt, &unix.Timeval{Sec: patience})
	}
	if err := unix.Connect(fd, to); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func hear(fd int) (string, error) {
	b := make([]byte, 512)
	n, err := unix.Read(fd, b)
	return string(b[:max(n, 0)]), err
}

// getOut tries to reach a listener on the host: "PORT ADDRESSES TOKEN", the addresses with commas
// between them. It tries each, and localhost by name, directly and through every proxy that the
// variables name. Only an answer with the token is the listener's; a proxy's own refusal is not.
func getOut(a []string) (string, error) {
	port, token := a[0], a[2]
	var last error = unix.ENETUNREACH
	hosts := strings.Split(a[1], ",")
	for _, host := range hosts {
		to, err := netip.ParseAddrPort(netJoin(host, port))
		if err != nil {
			return "", err
		}
		text, err := greet(sockaddr(to))
		if strings.Contains(text, token) {
			return "directly at " + host, nil
		}
		if err != nil {
			last = err
		}
	}
	tried := 0
	for _, host := range append(hosts, "localhost", "probe.palyra.invalid") {
		for _, way := range []func(door, host, port string) (string, error){byConnect, byRequest, bySocks} {
			door, ok := doorURL()
			if !ok {
				continue
			}
			tried++
			if text, err := way(door, host, port); err == nil && strings.Contains(text, token) {
				return "by a door to " + host, nil
			}
		}
	}
	return strconv.Itoa(tried) + " tries at doors", last
}

func netJoin(host, port string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]:" + port
	}
	return host + ":" + port
}

// doorURL returns the URL of the proxy that the environment names.
func doorURL() (string, bool) {
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"} {
		if v := os.Getenv(name); v != "" {
			return v, true
		}
	}
	return "", false
}

// knock connects to a proxy and returns the credential for it.
func knock(door string) (fd int, user, password string, err error) {
	_, rest, _ := strings.Cut(door, "://")
	rest, _, _ = strings.Cut(rest, "/")
	if i := strings.LastIndex(rest, "@"); i >= 0 {
		user, password, _ = strings.Cut(rest[:i], ":")
		rest = rest[i+1:]
	}
	to, err := netip.ParseAddrPort(rest)
	if err != nil {
		return -1, "", "", err
	}
	fd, err = dialOut(sockaddr(to))
	return fd, user, password, err
}

// byConnect asks with CONNECT, byRequest with a request for a whole URL.
func byConnect(door, host, port string) (string, error) {
	return byHTTP(door, "CONNECT "+netJoin(host, port)+" HTTP/1.1\r\nHost: "+netJoin(host, port)+"\r\n")
}

func byRequest(door, host, port string) (string, error) {
	return byHTTP(door, "GET http://"+netJoin(host, port)+"/ HTTP/1.1\r\nHost: "+netJoin(host, port)+"\r\nConnection: close\r\n")
}

func byHTTP(door, head string) (string, error) {
	fd, user, password, err := knock(door)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if user != "" || password != "" {
		head += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password)) + "\r\n"
	}
	if _, err := unix.Write(fd, []byte(head+"\r\n")); err != nil {
		return "", err
	}
	return hearAll(fd)
}

// bySocks asks in SOCKS5, with the credential when the proxy wants one.
func bySocks(door, host, port string) (string, error) {
	fd, user, password, err := knock(door)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if len(user) > 255 || len(password) > 255 {
		return "", errors.New("the credential is too long")
	}
	if _, err := unix.Write(fd, []byte{5, 2, 0, 2}); err != nil {
		return "", err
	}
	method, err := hear(fd)
	if err != nil || len(method) < 2 {
		return "", err
	}
	if method[1] == 2 {
		login := append([]byte{1, byte(len(user))}, user...)
		login = append(append(login, byte(len(password))), password...)
		if _, err := unix.Write(fd, login); err != nil {
			return "", err
		}
		if _, err := hear(fd); err != nil {
			return "", err
		}
	}
	n := numberOf(port)
	ask := append(append([]byte{5, 1, 0, 3, byte(len(host))}, host...), byte(n>>8), byte(n))
	if _, err := unix.Write(fd, ask); err != nil {
		return "", err
	}
	return hearAll(fd)
}

// hearAll reads until the other side is silent or has said enough.
func hearAll(fd int) (string, error) {
	var all bytes.Buffer
	for all.Len() < 4096 {
		text, err := hear(fd)
		if all.WriteString(text); err != nil || text == "" {
			break
		}
	}
	return all.String(), nil
}
