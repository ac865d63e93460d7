{{/* The documents of kubernetes-cronjob.yaml with the names of this release: ConfigMap, PersistentVolumeClaim, CronJob. */}}
{{- define "bkaudit.audit" -}}
{{ .Files.Get "files/kubernetes-cronjob.yaml"
  | replace "name: bkaudit\n" (printf "name: %s\n" .Release.Name)
  | replace "name: bkaudit-runs" (printf "name: %s-runs" .Release.Name)
  | replace "--bookies /collected " (include "bkaudit.bookies" .) }}
{{- end }}

{{/* The options --bookies of a shell's command, each with a space behind it. The schema allows no quotes in a source. */}}
{{- define "bkaudit.bookies" -}}
{{- range (include "bkaudit.sources" . | fromYamlArray) }}{{ printf "--bookies '%s' " . }}{{ end }}
{{- end }}

{{/* The sources of bookies, as a list. */}}
{{- define "bkaudit.sources" -}}
{{- if kindIs "string" .Values.bookies }}{{ list .Values.bookies | toYaml }}{{ else }}{{ .Values.bookies | default list | toYaml }}{{ end }}
{{- end }}

{{/* "yes" if audits read the volume of collections. */}}
{{- define "bkaudit.collects" -}}
{{- range (include "bkaudit.sources" . | fromYamlArray) }}{{ if or (eq . "/collected") (hasPrefix "/collected/" .) }}yes{{ end }}{{ end }}
{{- end }}

{{- define "bkaudit.image" -}}
{{- if kindIs "string" .Values.image }}{{ .Values.image }}
{{- else if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* audit.toml: what JSON writes for a text, a number, a truth value or a list, TOML takes. */}}
{{- define "bkaudit.options" -}}
{{- if kindIs "string" .Values.options }}{{ .Values.options }}
{{- else }}{{ range $name, $value := .Values.options }}{{ printf "%s = %s\n" $name (toJson $value) }}{{ end }}{{ end }}
{{- end }}

{{- define "bkaudit.suppressions" -}}
{{- if kindIs "string" .Values.suppressions }}{{ .Values.suppressions }}
{{- else }}{{ range .Values.suppressions }}{{ "[[suppress]]\n" }}
{{- range $name, $value := . }}
{{- /* TOML writes a day without quotes; YAML has it as a text. */}}
{{- $is_day := and (kindIs "string" $value) (regexMatch "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" (toString $value)) }}
{{- printf "%s = %s\n" $name ($is_day | ternary $value (toJson $value)) }}
{{- end }}{{ end }}{{ end }}
{{- end }}

{{/* Options of bkaudit prune. */}}
{{- define "bkaudit.keep" -}}
{{- if kindIs "string" .Values.nightly.keep }}{{ .Values.nightly.keep }}
{{- else }}{{ $options := list }}{{ range $name, $number := .Values.nightly.keep }}{{ if not (kindIs "invalid" $number) }}{{ $options = append $options (printf "--keep-%s %d" $name (int $number)) }}{{ end }}{{ end }}{{ join " " $options }}{{ end }}
{{- end }}

{{/* The claim of the nightly audit's runs, and that of the watch. */}}
{{- define "bkaudit.runs" -}}
{{- .Values.runs.existingClaim | default (printf "%s-runs" .Release.Name) }}
{{- end }}
{{- define "bkaudit.watchRuns" -}}
{{- if and .Values.nightly.enabled (not .Values.runs.shared) }}{{ printf "%s-watch-runs" .Release.Name }}{{ else }}{{ include "bkaudit.runs" . }}{{ end }}
{{- end }}
{{- define "bkaudit.collected" -}}
{{- .Values.collected.existingClaim | default (printf "%s-collected" .Release.Name) }}
{{- end }}

{{- define "bkaudit.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (.Values.serviceAccount.create | ternary .Release.Name "") }}
{{- end }}

{{/* What all pods have: image, secrets of its registry, account. Takes root and pod, which it changes. */}}
{{- define "bkaudit.common" -}}
{{- $container := index .pod.containers 0 }}
{{- $_ := set $container "image" (include "bkaudit.image" .root) }}
{{- if not (kindIs "string" .root.Values.image) }}
{{- with .root.Values.image.pullPolicy }}{{ $_ := set $container "imagePullPolicy" . }}{{ end }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}{{ $_ := set $.pod "imagePullSecrets" . }}{{ end }}
{{- with (include "bkaudit.serviceAccount" .root) }}{{ $_ := set $.pod "serviceAccountName" . }}{{ end }}
{{- end }}

{{/* The pod of an audit, with the values of the release. Takes root and claim, that of its runs. */}}
{{- define "bkaudit.pod" -}}
{{- $values := .root.Values }}
{{- $cron := fromYaml (index (splitList "\n---\n" (include "bkaudit.audit" .root)) 2) }}
{{- $pod := $cron.spec.jobTemplate.spec.template.spec }}
{{- include "bkaudit.common" (dict "root" .root "pod" $pod) }}
{{- $container := index $pod.containers 0 }}
{{- $_ := set $container "resources" $values.resources }}
{{- $absent := list }}
{{- if not (include "bkaudit.collects" .root) }}{{ $absent = append $absent "collected" }}{{ end }}
{{- if not $values.credentialsSecret }}{{ $absent = append $absent "credentials" }}{{ end }}
{{- $mounts := list }}
{{- range $container.volumeMounts }}{{ if not (has .name $absent) }}{{ $mounts = append $mounts . }}{{ end }}{{ end }}
{{- $_ := set $container "volumeMounts" $mounts }}
{{- $volumes := list }}
{{- range $pod.volumes }}
{{- if eq .name "runs" }}{{ $_ := set .persistentVolumeClaim "claimName" $.claim }}{{ end }}
{{- if eq .name "collected" }}{{ $_ := set .persistentVolumeClaim "claimName" (include "bkaudit.collected" $.root) }}{{ end }}
{{- if eq .name "credentials" }}{{ $_ := set .secret "secretName" $values.credentialsSecret }}{{ end }}
{{- if not (has .name $absent) }}{{ $volumes = append $volumes . }}{{ end }}
{{- end }}
{{- $_ := set $pod "volumes" $volumes }}
{{- $env := list }}
{{- range $container.env }}
{{- if or $values.credentialsSecret (ne .name "BKAUDIT_CREDENTIALS") }}{{ $env = append $env . }}{{ end }}
{{- end }}
{{- $_ := set $container "env" (concat $env $values.env) }}
{{- with $values.envFrom }}{{ $_ := set $container "envFrom" . }}{{ end }}
{{- range $name := list "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- with (index $values $name) }}{{ $_ := set $pod $name . }}{{ end }}
{{- end }}
{{- toYaml $pod }}
{{- end }}

{{/* The DaemonSet of kubernetes-collector.yaml, with the names and values of this release. */}}
{{- define "bkaudit.collector" -}}
{{- $set := .Files.Get "files/kubernetes-collector.yaml"
  | replace "bkaudit-collector" (printf "%s-collector" .Release.Name)
  | replace "bkaudit-collected" (include "bkaudit.collected" .) | fromYaml }}
{{- $template := $set.spec.template }}
{{- $pod := $template.spec }}
{{- include "bkaudit.common" (dict "root" . "pod" $pod) }}
{{- $_ := set (index $pod.containers 0) "resources" .Values.collector.resources }}
{{- $_ := set $pod "nodeSelector" (.Values.collector.nodeSelector | default $pod.nodeSelector) }}
{{- with .Values.collector.tolerations }}{{ $_ := set $pod "tolerations" . }}{{ end }}
{{- with .Values.collector.affinity }}{{ $_ := set $pod "affinity" . }}{{ end }}
{{- range $pod.volumes }}{{ if .hostPath }}{{ $_ := set .hostPath "path" $.Values.collector.hostPath }}{{ end }}{{ end }}
{{- with .Values.annotations }}{{ $_ := set $set.metadata "annotations" . }}{{ end }}
{{- with .Values.podAnnotations }}{{ $_ := set $template.metadata "annotations" . }}{{ end }}
{{- $_ := set $template.metadata "labels" (merge $template.metadata.labels .Values.podLabels) }}
{{- toYaml $set }}
{{- end }}

{{/* A claim: its name, and its values. */}}
{{- define "bkaudit.claim" -}}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ .name }}
  annotations: {helm.sh/resource-policy: keep}
spec:
  accessModes: [{{ .volume.accessMode }}]
  {{- with .volume.storageClass }}
  storageClassName: {{ . }}
  {{- end }}
  resources:
    requests:
      storage: {{ .volume.size }}
{{- end }}
