package server

import (
	"bytes"
	"cmp"
	_ "embed" // for the template
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsHTML string

var docsTemplate = template.Must(template.New("docs").Parse(docsHTML))

// docs is what the page at /docs shows: the OpenAPI document, for people.
type docs struct {
	Prefix  string
	Version string
	Groups  []docsGroup
}

type docsGroup struct {
	Name   string
	Routes []docsRoute
}

type docsRoute struct {
	ID, Method, Path, Summary, Description string
	Params                                 []docsParam
	Body                                   []docsParam
	Curl                                   string
}

type docsParam struct {
	Name, In, Type, Doc string
	Required            bool
}

// addDocs adds the page that shows the API to people. It needs nothing from elsewhere.
func (s *Server) addDocs() {
	s.mux.HandleFunc("GET /docs", func(w http.ResponseWriter, r *http.Request) {
		var page bytes.Buffer
		if err := docsTemplate.Execute(&page, s.docs(r)); err != nil {
			writeProblem(w, s.asProblem(err))
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		_, _ = w.Write(page.Bytes()) // the client may be gone
	})
}

func (s *Server) docs(r *http.Request) docs {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	root := scheme + "://" + r.Host + s.cfg.Prefix
	doc := s.api.OpenAPI()
	byTag := map[string][]docsRoute{}
	for path, item := range doc.Paths {
		for method, op := range map[string]*huma.Operation{
			http.MethodGet: item.Get, http.MethodPut: item.Put, http.MethodPost: item.Post, http.MethodDelete: item.Delete, http.MethodPatch: item.Patch,
		} {
			if op != nil {
				tag := strings.Join(op.Tags, ", ")
				byTag[tag] = append(byTag[tag], docsOf(doc, root, method, path, op))
			}
		}
	}
	d := docs{Prefix: s.cfg.Prefix, Version: s.cfg.Version}
	for tag, routes := range byTag {
		slices.SortFunc(routes, func(a, b docsRoute) int {
			return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
		})
		d.Groups = append(d.Groups, docsGroup{tag, routes})
	}
	slices.SortFunc(d.Groups, func(a, b docsGroup) int { return strings.Compare(a.Name, b.Name) })
	return d
}

func docsOf(doc *huma.OpenAPI, root, method, path string, op *huma.Operation) docsRoute {
	route := docsRoute{ID: op.OperationID, Method: method, Path: path, Summary: op.Summary, Description: op.Description}
	for _, p := range op.Parameters {
		route.Params = append(route.Params, docsParam{p.Name, p.In, typeOf(p.Schema), cmp.Or(p.Description, docOf(p.Schema)), p.Required})
	}
	curl := "curl"
	if method != http.MethodGet {
		curl += " -X " + method
	}
	curl += ` -H "Authorization: Bearer $ABIDE_TOKEN"`
	if body := op.RequestBody; body != nil && body.Content["application/json"] != nil {
		schema := body.Content["application/json"].Schema
		if schema != nil && schema.Ref != "" {
			schema = doc.Components.Schemas.SchemaFromRef(schema.Ref)
		}
		if schema != nil {
			for _, name := range sorted(schema.Properties) {
				field := schema.Properties[name]
				route.Body = append(route.Body, docsParam{name, "body", typeOf(field), docOf(field), slices.Contains(schema.Required, name)})
			}
		}
		curl += " -H 'Content-Type: application/json' -d '{…}'"
	}
	route.Curl = curl + " '" + root + path + "'"
	return route
}

func typeOf(schema *huma.Schema) string {
	switch {
	case schema == nil:
		return ""
	case schema.Ref != "":
		return schema.Ref[strings.LastIndex(schema.Ref, "/")+1:]
	case schema.Type == "array":
		return "list of " + typeOf(schema.Items)
	case schema.Format != "":
		return schema.Format
	case schema.Type == "":
		return "any"
	default:
		return schema.Type
	}
}

func docOf(schema *huma.Schema) string {
	if schema == nil {
		return ""
	}
	text := schema.Description
	values := schema.Enum
	if schema.Items != nil {
		values = append(slices.Clone(values), schema.Items.Enum...)
	}
	if len(values) > 0 {
		var names []string
		for _, v := range values {
			if name, ok := v.(string); ok {
				names = append(names, name)
			}
		}
		text = strings.TrimSpace(text + " One of: " + strings.Join(names, ", ") + ".")
	}
	return text
}

func sorted(m map[string]*huma.Schema) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
