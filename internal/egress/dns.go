package egress

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	maxQuery   = 1232 // bytes of a query
	answerFor  = 60   // seconds that a client may keep an answer
	queryRate  = 2000 // answered in a second; the kernel drops the rest
	maxTCPRuns = 128  // queries on one connection
)

// answerUDP is the name server. It never asks another one: every name has an address of its own in the run's
// network, and whether it may be reached is decided when somebody connects there.
func (s *Session) answerUDP(c *net.UDPConn) {
	buf := make([]byte, maxQuery+1)
	for left, began := queryRate, time.Now(); ; left-- {
		if left == 0 {
			if rest := time.Second - time.Since(began); rest > 0 && !s.pause(rest) {
				return
			}
			left, began = queryRate, time.Now()
		}
		n, from, err := c.ReadFromUDPAddrPort(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) || !s.pause(10*time.Millisecond) {
				return
			}
			continue
		}
		if out := s.answerName(buf[:n]); out != nil {
			_, _ = c.WriteToUDPAddrPort(out, from)
		}
	}
}

// answerTCP is the name server over TCP.
func (s *Session) answerTCP(c *net.TCPConn) {
	buf := make([]byte, maxQuery)
	for range maxTCPRuns {
		_ = c.SetDeadline(time.Now().Add(s.guard.times.head))
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(size[:]))
		if n > len(buf) {
			return
		}
		if _, err := io.ReadFull(c, buf[:n]); err != nil {
			return
		}
		out := s.answerName(buf[:n])
		if out == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...)); err != nil {
			return
		}
	}
}

// answerName answers a query; nil means that the bytes are no query.
func (s *Session) answerName(query []byte) []byte {
	if len(query) > maxQuery {
		return nil
	}
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil || h.Response {
		return nil
	}
	head := dnsmessage.Header{ID: h.ID, Response: true, RecursionDesired: h.RecursionDesired, RecursionAvailable: true}
	q, err := p.Question()
	if err == nil {
		_, err = p.Question() // a second question is refused
	}
	if !errors.Is(err, dnsmessage.ErrSectionDone) {
		head.RCode = dnsmessage.RCodeFormatError
		return reply(head, nil, netip.Addr{})
	}
	if h.OpCode != 0 {
		head.OpCode, head.RCode = h.OpCode, dnsmessage.RCodeNotImplemented
		return reply(head, nil, netip.Addr{})
	}
	at, code := s.lookUp(q)
	head.RCode = code
	return reply(head, &q, at)
}

// Types that dnsmessage has no name for: they only add details about a host.
const (
	typeSVCB  dnsmessage.Type = 64
	typeHTTPS dnsmessage.Type = 65
)

// lookUp finds the address for a question.
func (s *Session) lookUp(q dnsmessage.Question) (netip.Addr, dnsmessage.RCode) {
	name := strings.TrimSuffix(q.Name.String(), ".")
	if q.Class != dnsmessage.ClassINET {
		return netip.Addr{}, dnsmessage.RCodeRefused
	}
	h, err := parseHost(name)
	if err != nil || h.literal() {
		return netip.Addr{}, dnsmessage.RCodeNameError
	}
	switch q.Type {
	case dnsmessage.TypeA:
	case dnsmessage.TypeAAAA, typeSVCB, typeHTTPS:
		return netip.Addr{}, dnsmessage.RCodeSuccess // the host exists and has no such address
	default:
		s.refused(doorDNS, target{h, dnsPort}, errors.New("only addresses are answered"))
		return netip.Addr{}, dnsmessage.RCodeRefused
	}
	if h.local() {
		return loopback4, dnsmessage.RCodeSuccess
	}
	at, ok := s.book.address(h.name)
	if !ok {
		return netip.Addr{}, dnsmessage.RCodeServerFailure
	}
	return at, dnsmessage.RCodeSuccess
}

// reply writes an answer, with the address if it is valid.
func reply(head dnsmessage.Header, q *dnsmessage.Question, at netip.Addr) []byte {
	b := dnsmessage.NewBuilder(nil, head)
	b.EnableCompression()
	if q != nil {
		if b.StartQuestions() != nil || b.Question(*q) != nil {
			return nil
		}
	}
	if at.IsValid() {
		r := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: answerFor}
		if b.StartAnswers() != nil || b.AResource(r, dnsmessage.AResource{A: at.As4()}) != nil {
			return nil
		}
	}
	out, err := b.Finish()
	if err != nil {
		return nil
	}
	return out
}
