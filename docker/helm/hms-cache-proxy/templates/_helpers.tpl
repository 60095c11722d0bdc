{{- define "proxy.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end -}}
{{- end -}}

{{- define "proxy.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "proxy.labels" -}}
{{ include "proxy.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "proxy.storeSecret" -}}
{{- if .Values.store.existingSecret }}{{ .Values.store.existingSecret }}{{ else if .Values.store.url }}{{ include "proxy.name" . }}{{ end -}}
{{- end -}}

{{- define "proxy.peerSecret" -}}
{{- if gt (int .Values.replicas) 1 -}}
{{- if .Values.peers.existingSecret }}{{ .Values.peers.existingSecret }}{{ else }}{{ include "proxy.name" . }}{{ end -}}
{{- end -}}
{{- end -}}
