# julia --project=analysis/julia -e 'using Pkg; Pkg.test()'
# QTRAJ_CUBE names a real cube that is looked at too.
using HDF5
using QtrajCube
using Test

"""Writes a small file in the form of a cube, as the C library sees it: the first axis of the file is the last one here."""
function write_cube(path)
    h5open(path, "w") do file
        labels = ["model" => ["a", "b"], "bits" => [2, 3, 4], "quantizer" => ["rtn", "gptq"]]
        for (name, values) in labels
            file[name] = values
            HDF5.API.h5ds_set_scale(file[name], name)
        end
        file["loss"] = [100 * m + 10 * b + q for q in 1:2, b in 1:3, m in 1:2] .* 1.0 # (quantizer, bits, model) here
        HDF5.attributes(file["loss"])["units"] = "nat"
        for (place, name) in enumerate(["model", "bits", "quantizer"])
            HDF5.API.h5ds_attach_scale(file["loss"], file[name], place - 1)
        end
        file["tokens"] = [7, -1]
        HDF5.attributes(file["tokens"])["_FillValue"] = -1
        HDF5.API.h5ds_attach_scale(file["tokens"], file["model"], 0)
        HDF5.create_group(file, "cells")
        file["cells/model"] = ["a", "b"]
        file["cells/loss"] = [1.5, NaN]
    end
end

@testset "cube" begin
    path = tempname() * ".h5"
    write_cube(path)
    cube = open_cube(path)
    @test cube["loss"].axes == ("model", "bits", "quantizer")
    @test size(cube["loss"]) == (2, 3, 2)
    @test cube["loss"].data[2, 3, 1] == 231.0
    @test cube["loss"].units == "nat"
    @test at(cube["loss"]; model = "b", bits = 4, quantizer = "rtn") == 231.0
    part = at(cube["loss"]; bits = 3)
    @test part.axes == ("model", "quantizer") && part.data == [121.0 122.0; 221.0 222.0]
    @test isequal(cube["tokens"].data, [7, missing])
    @test cube.axes["bits"] == [2, 3, 4]
    @test_throws ArgumentError at(cube["loss"]; bits = 8)
    @test_throws ArgumentError at(cube["loss"]; text = "x")
    table = cells(path)
    @test table.model == ["a", "b"] && table.loss[1] == 1.5 && isnan(table.loss[2])
    @test_throws ArgumentError frame(path, "layers")
end

if haskey(ENV, "QTRAJ_CUBE")
    @testset "a real cube" begin
        path = ENV["QTRAJ_CUBE"]
        cube, table = open_cube(path), cells(path)
        loss = cube["loss_relative"]
        @test loss.axes == ("model", "checkpoint", "bits", "quantizer", "dataset")
        for row in eachindex(table.loss_relative) # every row of the table is the cell with its labels
            value = at(loss; model = table.model[row], checkpoint = table.checkpoint[row], bits = table.bits[row],
                       quantizer = table.quantizer[row], dataset = table.dataset[row])
            @test isequal(value, table.loss_relative[row])
        end
    end
end
