package vet

import (
	"go/ast"
	"go/constant"
	"regexp"
	"strings"
)

// pointerVerb is %p with its flags, width and argument index. Percent signs come in
// pairs before it, since a pair is a percent sign and no verb.
var pointerVerb = regexp.MustCompile(`(^|[^%])(%%)*%[-+# 0-9.*\[\]]*p`)

// format finds addresses in formatted text. Functions that format are named with
// an f at the end, everywhere.
func (w *walker) format(call *ast.CallExpr) {
	callee := w.callee(call)
	if callee == nil || !strings.HasSuffix(callee.Name(), "f") {
		return
	}
	for _, arg := range call.Args {
		value := w.info.Types[arg].Value
		if value != nil && value.Kind() == constant.String && pointerVerb.MatchString(constant.StringVal(value)) {
			w.report(arg.Pos(), verdict{Pointer, Pointer.say("the format %p")})
		}
	}
}
