package policy

import (
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// parts is a set of the approval's attributes.
type parts uint8

const (
	partGranted parts = 1 << iota
	partVotes
	partOther
	partDevice
	partSeparation
	partScope
	partFresh

	allParts = partFresh<<1 - 1
)

var partOf = map[types.String]parts{
	"granted": partGranted, "votes": partVotes, "other_person": partOther, "device": partDevice,
	"separation": partSeparation, "scope": partScope, "fresh": partFresh,
}

// readsApproval returns the parts of the approval that a policy's conditions
// can see. A use of the approval or the context as a whole sees all of them.
func readsApproval(p *ast.Policy) parts {
	var found parts
	look := func(n ast.IsNode) bool {
		if v, ok := n.(ast.NodeTypeVariable); ok && v.Name == "context" {
			found = allParts
		}
		of, attr := member(n)
		if isContext(of) {
			if attr == "approval" {
				found = allParts
			}
			return false // context.x with another x
		}
		if of, outer := member(of); isContext(of) && outer == "approval" {
			part, known := partOf[attr]
			if !known {
				part = allParts
			}
			found |= part
			return false
		}
		return found != allParts
	}
	for _, c := range p.Conditions {
		ast.Inspect(ast.NewNode(c.Body), look)
	}
	return found
}

// member splits x.attr and x has attr; the node is nil for anything else.
func member(n ast.IsNode) (of ast.IsNode, attr types.String) {
	switch n := n.(type) {
	case ast.NodeTypeAccess:
		return n.Arg, n.Value
	case ast.NodeTypeHas:
		return n.Arg, n.Value
	}
	return nil, ""
}

func isContext(n ast.IsNode) bool {
	v, ok := n.(ast.NodeTypeVariable)
	return ok && v.Name == "context"
}
