# cmake -DOUTPUT=FILE -DINPUTS=a.toml,b.toml -DNAMESPACE=N -DHEADER=H -DFOLDER=F -P embed.cmake: the files
# as C++ arrays of bytes, because a string literal must not be longer than 65535 characters everywhere. H
# declares embedded_files() in the namespace N; a file is named F/a.toml.
string(REPLACE "," ";" inputs "${INPUTS}")
set(text "#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\nnamespace {\n\n")
set(table "")
set(number 0)
foreach(input IN LISTS inputs)
    file(READ "${input}" hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
    get_filename_component(name "${input}" NAME)
    string(APPEND text "constexpr char kFile${number}[] = {${bytes}};\n")
    string(APPEND table "    {\"${FOLDER}/${name}\", {kFile${number}, sizeof kFile${number}}},\n")
    math(EXPR number "${number} + 1")
endforeach()
string(APPEND text "\nconstexpr EmbeddedFile kFiles[] = {\n${table}};\n\n}  // namespace\n\n")
string(APPEND text "std::span<const EmbeddedFile> embedded_files() { return kFiles; }\n\n")
string(APPEND text "}  // namespace ${NAMESPACE}\n")
file(WRITE "${OUTPUT}" "${text}")
