"""
Opens results cubes of qtraj with named axes.

HDF5 stores arrays row by row and Julia column by column, so HDF5.jl shows the axes of a cube in reverse. Here every
variable has them in the order of docs/cube.md: (model, checkpoint, bits, quantizer, dataset).
"""
module QtrajCube

using HDF5

export Cube, Variable, open_cube, at, cells, frame

"""
A variable of a cube. `data` has the axes `axes`, in that order; `labels[d]` names the places along axis `d`.
Missing integers (`_FillValue`) are `missing`, missing reals NaN.
"""
struct Variable{T,N}
    name::String
    data::Array{T,N}
    axes::NTuple{N,String}
    labels::NTuple{N,Vector}
    units::String
    long_name::String
end

"""All variables of a cube by name, and the labels of its axes."""
struct Cube
    path::String
    axes::Dict{String,Vector}
    variables::Dict{String,Variable}
end

Base.getindex(cube::Cube, name) = cube.variables[String(name)]
Base.keys(cube::Cube) = sort!(collect(keys(cube.variables)))
Base.size(v::Variable) = size(v.data)

text_of(object, name) = haskey(HDF5.attributes(object), name) ? String(HDF5.read_attribute(object, name)) : ""

"""The numbers or texts of a dataset, its axes still in reverse."""
function values_of(dataset)
    values = read(dataset)
    if eltype(values) <: Integer && haskey(HDF5.attributes(dataset), "_FillValue")
        fill = first(HDF5.read_attribute(dataset, "_FillValue"))
        return map(v -> v == fill ? missing : v, values)
    end
    return values
end

"""
Names of a dataset's axes in the order in which HDF5 stores them. `scales` are the datasets that may be an axis, by name: an
axis is the one that is attached to the dimension.
"""
function axes_of(dataset, name, scales)
    haskey(scales, name) && return [name]
    found = String[]
    for place in 0:(ndims(dataset) - 1)
        attached = [axis for (axis, scale) in scales if HDF5.API.h5ds_is_attached(dataset, scale, place)]
        isempty(attached) && throw(ArgumentError("dimension $place of $name has no axis: this is not a cube of qtraj"))
        push!(found, first(attached))
    end
    return found
end

"""The dataset with its axes in the stored order, which is that of docs/cube.md."""
function variable_of(dataset, name, scales, labels)
    data = values_of(dataset)
    axes = axes_of(dataset, name, scales)
    ordered = permutedims(data, reverse(1:ndims(data)))
    return Variable(name, ordered, Tuple(axes), Tuple(labels[axis] for axis in axes), text_of(dataset, "units"),
                    text_of(dataset, "long_name"))
end

"""
    open_cube(path)

Reads all variables of the cube and closes the file, so that a running sweep may replace it.
"""
function open_cube(path)
    h5open(path, "r") do file
        datasets = Dict(name => file[name] for name in keys(file) if file[name] isa HDF5.Dataset)
        scales = Dict(name => dataset for (name, dataset) in datasets if HDF5.API.h5ds_is_scale(dataset))
        isempty(scales) && throw(ArgumentError("$path has no axes: it is not a cube of qtraj"))
        labels = Dict{String,Vector}(name => vec(values_of(scale)) for (name, scale) in scales)
        variables = Dict{String,Variable}(name => variable_of(dataset, name, scales, labels)
                                          for (name, dataset) in datasets if ndims(dataset) > 0)
        return Cube(path, labels, variables)
    end
end

"""
    at(variable; model = "quickstart", bits = 3, ...)

The part of a variable at these labels: a variable with the axes that are left, or a single value.
"""
function at(v::Variable; labels...)
    index = Any[Colon() for _ in v.axes]
    for (axis, label) in labels
        place = findfirst(==(String(axis)), v.axes)
        place === nothing && throw(ArgumentError("$(v.name) has no axis $axis; it has $(join(v.axes, ", "))"))
        found = findfirst(isequal(label), v.labels[place])
        found === nothing && throw(ArgumentError("no $axis is $label; there are $(join(v.labels[place], ", "))"))
        index[place] = found
    end
    left = [place for place in eachindex(index) if index[place] isa Colon]
    part = v.data[index...]
    isempty(left) && return part
    return Variable(v.name, part, v.axes[left], v.labels[left], v.units, v.long_name)
end

"""
    frame(path, group)

A group of the cube's file as a table of columns of one length, a NamedTuple of vectors: `DataFrame(frame(path, "cells"))`.
"""
function frame(path, group)
    h5open(path, "r") do file
        haskey(file, group) || throw(ArgumentError("$path has no group $group"))
        columns = file[group]
        names = [name for name in keys(columns) if columns[name] isa HDF5.Dataset && ndims(columns[name]) == 1]
        return NamedTuple{Tuple(Symbol.(names))}(Tuple(values_of(columns[name]) for name in names))
    end
end

"""
    cells(path)

The table of cells: one row for each applicable cell and text of the plan.
"""
cells(path) = frame(path, "cells")

end
