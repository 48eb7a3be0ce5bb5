package cell

import (
	"errors"
	"fmt"
	"math"
)

// A packet begins with the protocol's version and a byte that says which end it comes from. Its fields follow in the
// encoding of a Spec: there are some ten packets in every run, most of them while somebody waits.
const (
	packetOrder  = 'o'
	packetReport = 'r'
)

var errPacket = errors.New("cell: decode: not a packet of this protocol")

// encode returns an Order or a Report as the bytes of a packet.
func encode(v any) ([]byte, error) {
	c := coder{out: make([]byte, 0, 128)}
	switch v := v.(type) {
	case Order:
		c.order(&v)
	case Report:
		c.report(&v)
	default:
		return nil, fmt.Errorf("cell: a %T is no packet", v)
	}
	return c.out, c.err
}

// decode reads exactly one packet into v, an *Order or a *Report. An end must not half obey what it does not understand.
func decode(b []byte, v any) error {
	c := coder{reading: true, in: b}
	switch v := v.(type) {
	case *Order:
		*v = Order{}
		c.order(v)
	case *Report:
		*v = Report{}
		c.report(v)
	default:
		return fmt.Errorf("cell: decode: into a %T", v)
	}
	return c.end()
}

// packet walks what every packet begins with.
func (c *coder) packet(from byte) bool {
	version, is := Version, uint64(from)
	if !c.version(&version) {
		return false
	}
	if c.uint64(&is); is != uint64(from) {
		c.fail(errPacket)
	}
	return c.err == nil
}

// order walks all fields of an Order.
func (c *coder) order(o *Order) {
	if !c.packet(packetOrder) {
		return
	}
	c.string((*string)(&o.Kind))
	c.int(&o.Signal)
	c.string(&o.Reason)
	c.int64(&o.GraceMS)
	c.uint16(&o.Rows)
	c.uint16(&o.Cols)
	c.int(&o.Room)
	c.string(&o.Path)
	c.bool(&o.Data)
	c.string(&o.Below)
	watched := o.Watch != nil
	if c.bool(&watched); !watched || c.err != nil {
		return
	}
	if c.reading {
		o.Watch = new(Watch)
	}
	c.watch(o.Watch)
}

// report walks all fields of a Report.
func (c *coder) report(r *Report) {
	if !c.packet(packetReport) {
		return
	}
	c.string((*string)(&r.Kind))
	for _, v := range []*int{&r.Version, &r.Launcher, &r.Room, &r.Errno, &r.Code, &r.Signal, &r.Killed} {
		c.int(v)
	}
	for _, v := range []*string{&r.Step, &r.Text, &r.Limit, &r.Stopped} {
		c.string(v)
	}
	for _, v := range []*int64{&r.Usage.CPUMS, &r.Usage.PeakMemory, &r.Usage.Processes} {
		c.int64(v)
	}
}

func (c *coder) uint16(v *uint16) {
	n := uint64(*v)
	if c.uint64(&n); n > math.MaxUint16 {
		c.fail(errors.New("cell: a number out of range"))
		return
	}
	*v = uint16(n)
}
